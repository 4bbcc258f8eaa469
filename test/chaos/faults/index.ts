import { clockFaults } from './clocks.js';
import { failoverFaults } from './failovers.js';
import type { Fault } from './fault.js';
import { mixtures } from './mixed.js';
import { networkFaults } from './network.js';
import { processFaults } from './processes.js';
import { serverFaults } from './servers.js';

/** All faults: the rows of the result. */
export const FAULTS: readonly Fault[] = [
  ...processFaults,
  ...serverFaults,
  ...networkFaults,
  ...clockFaults,
  ...failoverFaults,
  ...mixtures,
];

export type { Fault } from './fault.js';
