import { failoverFaults } from './failovers.js';
import type { Fault } from './fault.js';
import { loadFaults } from './loads.js';
import { messageFaults, networkFaults } from './network.js';
import { deploymentFaults, processFaults } from './processes.js';
import { clockFaults, outOfMemory, serverFaults } from './servers.js';
import { permitFaults, readerFaults, ticketLate } from './sharing.js';

/** All faults: the rows of the results. */
export const FAULTS: readonly Fault[] = [
  ...processFaults,
  ...serverFaults,
  ...networkFaults,
  ...messageFaults,
  outOfMemory,
  ...clockFaults,
  ...failoverFaults,
  ...deploymentFaults,
  ...readerFaults,
  ...permitFaults,
  ticketLate,
  ...loadFaults,
];

export type { Fault } from './fault.js';
