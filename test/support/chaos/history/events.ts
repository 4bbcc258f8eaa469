import type { LockMode } from '../../../../lib/contract/lock-mode.js';

/**
 * An event of a run. `at` is the machine's monotonic clock in milliseconds, which is the same in all processes.
 * `server` is a server's own clock.
 */
export type Event = OpEvent | HarnessEvent;

/** A grant of the store. The server has confirmed it at `since` or later. */
export interface HeldGrant {
  readonly owner: string;
  readonly token?: number | undefined;
  readonly since: number;
}

/** An event of an operation, written by its process. `op` begins with the name of the process. */
export type OpEvent =
  /** It requests the lock. `mode` and `resources` as below. */
  | {
      readonly kind: 'invoke';
      readonly op: string;
      readonly process: string;
      readonly at: number;
      readonly mode?: LockMode;
      readonly resources?: readonly string[];
    }
  /**
   * It holds its locks, and may trust them for `expiresInMs`, null: forever. `mode` is exclusive if it is omitted.
   * `resources` is the workload's resource alone if it is omitted. The token is that resource's. `grants` has the
   * grant of the store for each resource. Several holds of a process may have a grant in common.
   */
  | {
      readonly kind: 'entered';
      readonly op: string;
      readonly at: number;
      readonly mode?: LockMode;
      readonly resources?: readonly string[];
      readonly grants?: readonly HeldGrant[];
      readonly token: number | null;
      readonly expiresInMs: number | null;
    }
  /** It was renewed, or its local deadline was read again. */
  | { readonly kind: 'extended'; readonly op: string; readonly at: number; readonly expiresInMs: number | null }
  /** Its lock belongs to a ticket, for `expiresInMs`. */
  | { readonly kind: 'detached'; readonly op: string; readonly at: number; readonly expiresInMs: number }
  /** This process has the ticket now, and continues the operation. */
  | { readonly kind: 'resumes'; readonly op: string; readonly at: number; readonly process: string }
  /** It holds the lock again, with this token. */
  | {
      readonly kind: 'resumed';
      readonly op: string;
      readonly at: number;
      readonly token: number;
      readonly expiresInMs: number | null;
    }
  /** Its signal has aborted. */
  | { readonly kind: 'lost'; readonly op: string; readonly at: number }
  /** It releases the lock now. */
  | { readonly kind: 'left'; readonly op: string; readonly at: number }
  /** It read the registers from `from` to `at`. `fenced` is null if the fence refused its token, or it has none. */
  | {
      readonly kind: 'saw';
      readonly op: string;
      readonly from: number;
      readonly at: number;
      readonly register: string;
      readonly fenced: string | null;
    }
  /** It sends its writes now. */
  | { readonly kind: 'writes'; readonly op: string; readonly at: number }
  /**
   * It wrote. `server`: the time of the write in ms of the resource's clock. `fencedWrite`: whether the fence admitted
   * it. Null: the reply was lost.
   */
  | {
      readonly kind: 'ok';
      readonly op: string;
      readonly at: number;
      readonly server: number;
      readonly fencedWrite: boolean | null;
    }
  /** It read the resource twice, with a pause in between. The first read began at `from`, the second ended at `at`. */
  | {
      readonly kind: 'read';
      readonly op: string;
      readonly from?: number;
      readonly at: number;
      readonly first: string;
      readonly second: string;
    }
  /** It wrote nothing, for this reason. */
  | { readonly kind: 'fail'; readonly op: string; readonly at: number; readonly reason: FailReason }
  /** It may have written. */
  | { readonly kind: 'unknown'; readonly op: string; readonly at: number; readonly reason: string };

/**
 * `busy`, `unavailable`, `closed`, `left`: it got no lock. `closed`: its process shuts down. `lost`: it noticed in time
 * that it had lost it.
 */
export type FailReason = 'busy' | 'unavailable' | 'closed' | 'left' | 'lost';

/** An event written by the harness. */
export type HarnessEvent =
  /** A process was stopped, blocked or dead in this time. `to` is null if it never came back. */
  | {
      readonly kind: 'absent';
      readonly process: string;
      readonly at: number;
      readonly from: number;
      readonly to: number | null;
    }
  /** A server's clock was read. */
  | { readonly kind: 'clock'; readonly at: number; readonly server: number }
  /** Another process received the order to release the lock of this operation by force. */
  | { readonly kind: 'forced'; readonly former: string; readonly at: number }
  /** The lock's key was deleted on all servers between `at` and `to`, with no other data. */
  | { readonly kind: 'lockDeleted'; readonly at: number; readonly to: number }
  /** A server lost its data between `at` and `to`. */
  | { readonly kind: 'dataLost'; readonly at: number; readonly to: number }
  /** A fault begins, or ends. From its end on, the locks must recover by themselves. */
  | { readonly kind: 'injected' | 'healed'; readonly fault: string; readonly at: number };

/** A write at the resource, in the resource's order. `basedOn` is the operation whose value it had read. */
export interface Write {
  readonly op: string;
  readonly basedOn: string;
}

/** All records of a run. */
export interface History {
  /** When the run was cut off. Undefined if all operations ended. */
  readonly until?: number;
  readonly events: readonly Event[];
  /** The register without a fence. */
  readonly register: readonly Write[];
  /** The register behind a fence. */
  readonly fenced: readonly Write[];
  /** The elements of the set at the end. */
  readonly set: readonly string[];
  /** Keys of locks and queues that were left on the servers. */
  readonly leftovers: readonly string[];
}
