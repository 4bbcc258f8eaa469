import type { ReplicaOptions } from '../../../lib/stores/token/replication/replica-options.js';
import type { SentinelAddress } from '../../support/redis/replica-set.js';
import type { DefenceName } from '../ablations.js';
import type { OpEvent } from '../history/events.js';
import type { WorkloadName } from './kinds.js';

/** The stores that are put to the test: the columns of the result. */
export const STORES = ['token', 'timestamp', 'redisson', 'quorum'] as const;
export type StoreName = (typeof STORES)[number];

/** How locks are asked for. */
export interface LockTerms {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly requestTimeoutMs: number;
  readonly replicas?: ReplicaOptions;
}

/** Where the lock's servers are: the URL of one, or what leads to the master. */
export type LockPlace =
  string | SentinelAddress | { readonly nodes: readonly { readonly host: string; readonly port: number }[] };

/** What a worker is started with. */
export interface WorkerTask {
  /** Names it in the history. */
  readonly name: string;
  readonly store: StoreName;
  /** The lock's servers, as this process reaches them. */
  readonly places: readonly LockPlace[];
  /** The server that keeps what the lock protects. It is never in trouble. */
  readonly resource: string;
  readonly terms: LockTerms;
  readonly workload: WorkloadName;
  /** The longest pause between two visits of a caller. */
  readonly thinkMs: number;
  readonly seed: number;
  /** The defence that is switched off in this process. */
  readonly off: DefenceName | undefined;
  /** Where its history goes, a line an event: what is written there outlives a SIGKILL. */
  readonly file: string;
}

/** What a worker is told while it runs. */
export type Order =
  /**
   * Its next hold, of a reader if so, takes that long; the last look at the lock is in the middle of it, or so soon; then
   * blocked, if so.
   */
  | {
      readonly kind: 'hold';
      readonly ms: number;
      readonly reader?: boolean;
      readonly lookAfterMs?: number;
      readonly block?: boolean;
    }
  /** Its long hold ends now, or does not even begin. */
  | { readonly kind: 'end' }
  /** Nobody asks for the lock until told to go on. */
  | { readonly kind: 'rest' }
  /** All, or the readers only. */
  | { readonly kind: 'go'; readonly readers?: boolean }
  /** It ends what it does, and itself. */
  | { readonly kind: 'leave' };

/** What a worker tells while it runs. */
export type Report =
  | { readonly kind: 'ready'; readonly instance: string }
  /** As in its history; `ordered`: it is the hold that was ordered. */
  | (OpEvent & { readonly ordered?: boolean })
  /** The hold that was ordered is behind its last look at the lock. */
  | { readonly kind: 'looked'; readonly op: string }
  | { readonly kind: 'crash'; readonly error: string };

export const RESOURCE = 'goods:300';
export const PREFIX = 'chaos_';
