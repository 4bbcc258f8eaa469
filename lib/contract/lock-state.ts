import type { LockMode } from './lock-mode.js';

/** The work of a holder, as its caller named it. Undefined if it is not known. */
export interface HolderWork {
  /** The `@Locked` or `@WhileLeader` method. */
  readonly method?: string | undefined;
  /** The label of the call. */
  readonly label?: string | undefined;
}

/** One holder of a key. */
export interface HolderInfo extends HolderWork {
  /** The holder's instance id, or the whole value of a key that another system wrote. */
  readonly holder: string;
  /** The remaining lease in milliseconds. Infinity if it never expires. */
  readonly remainingMs: number;
  /** The fencing token of the grant. Undefined without fencing. */
  readonly token: number | undefined;
  /** When the holder got the lock from the store, on the engine's clock. Default: unknown. */
  readonly since?: number | undefined;
  /** The wire version of the holder, if it differs from that of the store. Default: the same. */
  readonly wireVersion?: number | undefined;
}

/** One entry of a store's queue. */
export interface WaiterInfo {
  /** The waiter's instance id. */
  readonly waiter: string;
  /** The mode that it requests. */
  readonly mode: LockMode;
  /** The wire version of the waiter, if it differs from that of the store. Default: the same. */
  readonly wireVersion?: number | undefined;
}

/** The state of a key that is held: its first holder, and the other holders and waiters. */
export interface HeldState extends HolderInfo {
  /** The mode that it is held in. Default: `exclusive`. */
  readonly mode?: LockMode;
  /** Whether nobody holds it: its last holder has closed it, because its work is done. Default: false. */
  readonly isDone?: boolean;
  /** The other holders. Default: none. */
  readonly others?: readonly HolderInfo[];
  /** The queue, first entry first. Default: empty. */
  readonly waiting?: readonly WaiterInfo[];
}

/** The state of a key that nobody holds but others wait for, because its last holder died. */
export interface AwaitedState {
  readonly holder?: undefined;
  readonly remainingMs?: undefined;
  readonly token?: undefined;
  readonly wireVersion?: undefined;
  readonly method?: undefined;
  readonly label?: undefined;
  readonly mode?: undefined;
  readonly isDone?: undefined;
  readonly others?: undefined;
  /** The queue, first entry first. At least one. */
  readonly waiting: readonly WaiterInfo[];
}

/** The state of a key that is held or waited for. */
export type LockState = HeldState | AwaitedState;
