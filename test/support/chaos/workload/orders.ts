import type { PassingLimits } from '../../../../lib/engine/options.js';
import type { ReplicaOptions } from '../../../../lib/stores/store-context.js';
import type { SentinelAddress } from '../../redis/replica-set.js';
import type { AblationName } from '../ablations.js';
import type { OpEvent } from '../history/events.js';
import type { WorkloadName } from './kinds.js';
import type { Seen } from './resource.js';

/** The tested stores. */
export const STORES = ['token', 'timestamp', 'redisson', 'quorum'] as const;
export type StoreName = (typeof STORES)[number];

/** Lock options of a run. */
export interface LockTerms {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly requestTimeoutMs: number;
  readonly passing?: PassingLimits;
  readonly replicas?: ReplicaOptions;
  /** How long a process may finish its calls and holds after SIGTERM. Default: 2 s. */
  readonly shutdownGraceMs?: number;
}

/** The address of the lock's servers: a URL, Sentinels or cluster nodes. */
export type LockPlace =
  string | SentinelAddress | { readonly nodes: readonly { readonly host: string; readonly port: number }[] };

/**
 * The client of the processes. Only `ioredis, resends` sends a request again whose connection has ended: the
 * application makes it, with the defaults of ioredis. The module makes that of ioredis 5.
 */
export type ClientName = 'ioredis 5' | 'ioredis, resends' | 'node-redis';

/** The task of a worker. */
export interface WorkerTask {
  /** Its name in the history. */
  readonly name: string;
  readonly store: StoreName;
  /** The addresses by which this process reaches the lock's servers. */
  readonly places: readonly LockPlace[];
  /** The server of the protected resource. No fault hits it. */
  readonly resource: string;
  readonly terms: LockTerms;
  readonly workload: WorkloadName;
  /** Default: the module makes one, with the installed ioredis. */
  readonly client: ClientName | undefined;
  /** The longest pause between two visits of a caller. */
  readonly thinkMs: number;
  readonly seed: number;
  /** The ablation of this process. */
  readonly off: AblationName | undefined;
  /** The file of its history, one event a line. It survives a SIGKILL. */
  readonly file: string;
}

/** A visit whose lock was detached after it had read. */
export interface Detached {
  readonly op: string;
  readonly ticket: string;
  readonly token: number | undefined;
  readonly seen: Seen;
}

/** An order to a running worker. */
export type Order =
  /**
   * Its next hold, or next reader's hold, lasts `ms`. Its last check of the lock is in the middle, or after
   * `lookAfterMs`. `block`: then it blocks the event loop.
   */
  | {
      readonly kind: 'hold';
      readonly ms: number;
      readonly reader?: boolean;
      readonly lookAfterMs?: number;
      readonly block?: boolean;
    }
  /** It continues a visit of any process. */
  | { readonly kind: 'resume'; readonly visit: Detached }
  /** Its long hold ends now, or does not begin. */
  | { readonly kind: 'end' }
  /** Its callers request nothing until `go`. */
  | { readonly kind: 'rest' }
  /** All callers continue, or only the readers. */
  | { readonly kind: 'go'; readonly readers?: boolean }
  /** It releases the lock by force, of any holder. */
  | { readonly kind: 'force' }
  /** It finishes, and exits. */
  | { readonly kind: 'leave' };

/** A report of a running worker. */
export type Report =
  | { readonly kind: 'ready'; readonly instance: string }
  /** An event of its history. `ordered`: it belongs to the ordered hold. */
  | (OpEvent & { readonly ordered?: boolean })
  /** The ordered hold has checked the lock for the last time. */
  | { readonly kind: 'looked'; readonly op: string }
  /** Its visit goes on in another process. */
  | { readonly kind: 'pass'; readonly visit: Detached }
  /** It has released the lock by force, or nobody held it. */
  | { readonly kind: 'forced'; readonly released: boolean }
  | { readonly kind: 'crash'; readonly error: string };

export const RESOURCE = 'goods:300';
export const PREFIX = 'chaos_';
