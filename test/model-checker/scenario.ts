import type { LockMode } from '../../lib/core/store/lock-store.js';
import type { LockTable, TableWorld } from '../../lib/stores/memory/lock-table.js';
import type { Process } from './process.js';

/** What may go wrong in one run, at any moment; each of these is one use of `losses`. */
export type LossKind =
  /** A hand-off message does not arrive. */
  | 'message'
  /** A hand-off message arrives twice. */
  | 'duplicate'
  /** The command connection ends: its replies are lost, its requests may still be run, later or never. */
  | 'reset'
  /** The subscription ends and is opened again some time later; the server knows. */
  | 'subscription'
  /** The subscription is half open: the server counts a listener who hears nothing. */
  | 'half-open';

/** A protocol with one of its rules left out. */
export interface Variant {
  readonly name: string;
  readonly table?: (world: TableWorld) => LockTable;
  /** From when the process counts a hand-off, of which the truth is `since`. */
  readonly grantedAt?: (since: number, now: number) => number;
  /** Nothing is sent behind an ask that is given up. */
  readonly givesUpSilently?: boolean;
  readonly nextOwner?: (process: Process) => string;
  /** Runs behind each step of a process. */
  readonly afterStep?: (process: Process) => void;
}

/** What is explored, exhaustively within these bounds. */
export interface Scenario {
  readonly name: string;
  readonly processes: number;
  /** How each process asks for the lock; those that are not named want it alone. One that shares it asks once. */
  readonly modes: readonly LockMode[];
  /** How often each process asks for the lock; when, also while it waits or holds already, is a choice. */
  readonly acquisitions: number;
  readonly maxLocalPasses: number;
  readonly leaseMs: number;
  /** How often the time moves in one run; each time to any of the moments at which something is due. */
  readonly moves: number;
  readonly losses: readonly LossKind[];
  /** How many processes die in one run, at most. */
  readonly crashes: number;
  /** How many callers stop waiting in one run, at most. */
  readonly leaves: number;
  /** How long a run that nothing disturbs any more may take until everybody was granted and all is tidy. */
  readonly settlesWithinMs: number;
  readonly variant?: Variant;
}

/** The one key of the model. */
export const KEY = '{lock_goods}:300';

export const REQUEST_TIMEOUT_MS = 1_000;

/** The defaults of the module, as far as they matter here. */
export const BASE = {
  maxLocalPasses: 1,
  leaseMs: 30_000,
  modes: [],
  moves: 0,
  losses: [],
  crashes: 0,
  leaves: 0,
} as const;
