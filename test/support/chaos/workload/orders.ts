import type { PassingLimits } from '../../../../lib/engine/options.js';
import type { ReplicaOptions } from '../../../../lib/stores/store-context.js';
import type { SentinelAddress } from '../../redis/replica-set.js';
import type { AblationName } from '../ablations.js';
import type { OpEvent, Tagged } from '../history/events.js';
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

interface Orders {
  /**
   * Its next hold, or next reader's hold, lasts `ms`. Its last check of the lock is in the middle, or after
   * `lookAfterMs`. `block`: then it blocks the event loop.
   */
  hold: { ms: number; reader?: boolean; lookAfterMs?: number; block?: boolean };
  /** It continues a visit of any process. */
  resume: { visit: Detached };
  /** Its long hold ends now, or does not begin. */
  end: object;
  /** Its callers request nothing until `go`. */
  rest: object;
  /** All callers continue, or only the readers. */
  go: { readers: boolean };
  /** It releases the lock by force, of any holder. */
  force: object;
  /** It finishes, and exits. */
  leave: object;
}

interface Reports {
  ready: { instance: string };
  /** The ordered hold has checked the lock for the last time. */
  looked: { op: string };
  /** Its visit goes on in another process. */
  pass: { visit: Detached };
  /** It has released the lock by force, or nobody held it. */
  forced: { released: boolean };
  crash: { error: string };
}

/** An order to a running worker. */
export type Order = Tagged<Orders>;
export type OrderOf<Kind extends keyof Orders> = Extract<Order, { kind: Kind }>;

/** A report of a running worker, or an event of its history. `ordered`: it belongs to the ordered hold. */
export type Report = Tagged<Reports> | (OpEvent & { readonly ordered?: boolean });

export const RESOURCE = 'goods:300';
export const PREFIX = 'chaos_';
