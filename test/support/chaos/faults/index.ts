import { clockFaults } from './clocks.js';
import { deploymentFaults } from './deployments.js';
import { failoverFaults } from './failovers.js';
import type { Fault } from './fault.js';
import { forcedFaults } from './forced.js';
import { loadFaults } from './loads.js';
import { memoryFaults } from './memory.js';
import { messageFaults } from './messages.js';
import { networkFaults } from './network.js';
import { permitFaults } from './permits.js';
import { processFaults, waitersStopped } from './processes.js';
import { readerFaults } from './readers.js';
import { serverFaults } from './servers.js';
import { ticketFaults } from './tickets.js';

/** All faults: the rows of the results. */
export const FAULTS: readonly Fault[] = [
  ...processFaults,
  waitersStopped,
  ...serverFaults,
  ...networkFaults,
  ...messageFaults,
  ...memoryFaults,
  ...clockFaults,
  ...failoverFaults,
  ...deploymentFaults,
  ...forcedFaults,
  ...readerFaults,
  ...permitFaults,
  ...ticketFaults,
  ...loadFaults,
];

export type { Fault } from './fault.js';
