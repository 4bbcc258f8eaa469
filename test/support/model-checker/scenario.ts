import type { LockMode } from '../../../lib/core/store/lock-store.js';
import type { LockTable, LockTableDeps } from '../../../lib/stores/memory/lock-table.js';
import type { Process } from './process.js';

/** What can go wrong in one run, at any moment. A run has one loss at most. */
export type LossKind =
  /** A handoff message does not arrive. */
  | 'message'
  /** A handoff message arrives twice. */
  | 'duplicate'
  /** The command connection ends. Its replies are lost. Its requests may still run. */
  | 'reset'
  /** The subscription ends and is opened again later. The server knows. */
  | 'subscription'
  /** The subscription is half open: the server counts a subscriber, but no message arrives. */
  | 'half-open';

/** The protocol without one of its rules. */
export interface Variant {
  readonly name: string;
  readonly table?: (world: LockTableDeps) => LockTable;
  /** Returns the moment from which the process counts a handoff that was granted at `since`. */
  readonly grantedAt?: (since: number, now: number) => number;
  /** No release follows a request that is given up. */
  readonly givesUpSilently?: boolean;
  readonly nextOwner?: (process: Process) => string;
  /** A message about a release by force ends all holds, without a request to the server. */
  readonly trustsForced?: boolean;
  /** Runs after each step of a process. */
  readonly afterStep?: (process: Process) => void;
}

/** The bounds of an exploration, which is exhaustive within them. */
export interface Scenario {
  readonly name: string;
  readonly processes: number;
  /** The mode of each process, exclusive by default. */
  readonly modes: readonly LockMode[];
  /** How many callers acquire the lock in each process. They may come at any moment. */
  readonly acquisitions: number;
  readonly maxLocalPasses: number;
  readonly leaseMs: number;
  /** How many times the clock moves ahead in one run, each time to any moment at which a timer or a lease is due. */
  readonly moves: number;
  readonly losses: readonly LossKind[];
  /** How many processes crash in one run, at most. */
  readonly crashes: number;
  /** How many callers abort their waiting in one run, at most. */
  readonly leaves: number;
  /** How many times somebody releases the lock by force in one run, at most. Default: 0. */
  readonly forces?: number;
  /** Within how many milliseconds after the last fault every caller must be granted and nothing be left over. */
  readonly settlesWithinMs: number;
  readonly variant?: Variant;
}

/** The one key of the model. */
export const KEY = '{lock_goods}:300';

export const REQUEST_TIMEOUT_MS = 1_000;

/** The module's defaults that matter here. */
export const BASE = {
  maxLocalPasses: 1,
  leaseMs: 30_000,
  modes: [],
  moves: 0,
  losses: [],
  crashes: 0,
  leaves: 0,
} as const;
