import { type Fault, leases } from './fault.js';
import { networkFaults } from './network.js';
import { processFaults } from './processes.js';
import { named, oneAfterAnother } from './sequence.js';
import { serverFaults } from './servers.js';

/** Faults that keep the servers' data: the lock must hold throughout. */
const HARMLESS = [
  ...processFaults,
  ...networkFaults,
  ...named(serverFaults, 'server stopped', 'server killed', 'SCRIPT FLUSH'),
];

/** Faults that the lock alone does not survive, and faults that it does. */
const HARMFUL = [...named(serverFaults, 'server restarted empty', 'FLUSHALL', 'key deleted by hand'), ...processFaults];

const TERMS = leases(1_000, { requestTimeoutMs: 500 });

/** The callers' `waitMs`, and one reply more. */
const LONGEST_MS = TERMS.waitMs + 4_000;

const dataKept: Fault = {
  name: 'mixed, data kept',
  what: 'all faults without data loss, one after another, in an order chosen by the seed',
  ablation: 'local deadline',
  breaks: 'overlap',
  terms: TERMS,
  promises: { waitMs: LONGEST_MS, refuses: true, losesHolds: true },
  stores: { token: {} },
  mixed: true,
  durable: true,
  inject: (scene) => oneAfterAnother(scene, HARMLESS),
};

const dataLost: Fault = {
  name: 'mixed, data lost',
  what: 'faults of processes, and faults that take the lock away from its holder, in an order chosen by the seed',
  ablation: 'fence',
  breaks: 'fenced update lost',
  terms: TERMS,
  promises: { waitMs: LONGEST_MS, refuses: true, losesHolds: true, overlapMs: Infinity },
  stores: { token: {} },
  mixed: true,
  inject: (scene) => oneAfterAnother(scene, HARMFUL),
};

export const mixtures = [dataKept, dataLost] as const;
