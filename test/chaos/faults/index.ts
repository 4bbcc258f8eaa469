import { clockFaults } from './clocks.js';
import { failoverFaults } from './failovers.js';
import type { Fault } from './fault.js';
import { mixtures } from './mixed.js';
import { networkFaults } from './network.js';
import { permitFaults } from './permits.js';
import { processFaults } from './processes.js';
import { readerFaults } from './readers.js';
import { serverFaults } from './servers.js';

/** All faults: the rows of the results. */
export const FAULTS: readonly Fault[] = [
  ...processFaults,
  ...serverFaults,
  ...networkFaults,
  ...clockFaults,
  ...failoverFaults,
  ...mixtures,
  // They come last, so that the faults above keep their seeds.
  ...readerFaults,
  ...permitFaults,
];

export type { Fault } from './fault.js';
