import { clockFaults } from './clocks.js';
import { deploymentFaults } from './deployments.js';
import { failoverFaults } from './failovers.js';
import type { Fault } from './fault.js';
import { forcedFaults } from './forced.js';
import { loadFaults } from './loads.js';
import { memoryFaults } from './memory.js';
import { messageFaults } from './messages.js';
import { mixtures } from './mixed.js';
import { networkFaults } from './network.js';
import { permitFaults } from './permits.js';
import { processFaults, waitersStopped } from './processes.js';
import { readerFaults } from './readers.js';
import { serverFaults } from './servers.js';
import { stallFaults } from './stalls.js';

/** All faults: the rows of the results. */
export const FAULTS: readonly Fault[] = [
  ...processFaults,
  waitersStopped,
  ...serverFaults,
  ...networkFaults,
  ...messageFaults,
  ...stallFaults,
  ...memoryFaults,
  ...clockFaults,
  ...failoverFaults,
  ...deploymentFaults,
  ...forcedFaults,
  ...readerFaults,
  ...permitFaults,
  ...mixtures,
  ...loadFaults,
];

export type { Fault } from './fault.js';
