import type { LockMode } from '../../../../lib/contract/lock-mode.js';

/** A grant of the store. The server has confirmed it at `since` or later. */
export interface HeldGrant {
  readonly owner: string;
  readonly token?: number | undefined;
  readonly since: number;
}

/** What an operation may log about its lock. Null: forever. */
interface Lease {
  expiresInMs: number | null;
}

interface OpEvents {
  /** It requests the lock. `mode` and `resources` as below. */
  invoke: { process: string; mode?: LockMode; resources?: readonly string[] };
  /**
   * It holds its locks, and may trust them for `expiresInMs`. `mode` is exclusive if it is omitted. `resources` is the
   * workload's resource alone if it is omitted. The token is that resource's. `grants` has the grant of the store for
   * each resource. Several holds of a process may have a grant in common.
   */
  entered: Lease & {
    mode?: LockMode;
    resources?: readonly string[];
    grants?: readonly HeldGrant[];
    token: number | null;
  };
  /** It was renewed, or its local deadline was read again. */
  extended: Lease;
  /** Its lock belongs to a ticket, for `expiresInMs`. */
  detached: Lease;
  /** This process has the ticket now, and continues the operation. */
  resumes: { process: string };
  /** It holds the lock again, with this token. */
  resumed: Lease & { token: number };
  /** Its signal has aborted. */
  lost: object;
  /** It releases the lock now. */
  left: object;
  /** It read the registers from `from` to `at`. `fenced` is null if the fence refused its token, or it has none. */
  saw: { from: number; register: string; fenced: string | null };
  /** It sends its writes now. */
  writes: object;
  /** It wrote. `fencedWrite`: whether the fence admitted it. Null: the reply was lost. */
  ok: { fencedWrite: boolean | null };
  /** It read the resource twice, with a pause in between. The first read began at `from`, the second ended at `at`. */
  read: { from?: number; first: string; second: string };
  /** It wrote nothing, for this reason. */
  fail: { reason: FailReason };
  /** It may have written. */
  unknown: { reason: string };
}

interface HarnessEvents {
  /** A process was stopped, blocked or dead in this time. `to` is null if it never came back. */
  absent: { process: string; from: number; to: number | null };
  /** A server's clock was read. */
  clock: { server: number };
  /** Another process received the order to release the lock of this operation by force. */
  forced: { former: string };
  /** The lock's key was deleted on all servers between `at` and `to`, with no other data. */
  lockDeleted: { to: number };
  /** A server lost its data between `at` and `to`. */
  dataLost: { to: number };
  /** A fault begins. */
  injected: object;
  /** A fault ends. From here on, the locks must recover by themselves. */
  healed: object;
}

/** A union of the members of `All`. `kind` has their names. */
export type Tagged<All, Common = object> = {
  [Kind in keyof All]: Readonly<{ kind: Kind } & Common & All[Kind]>;
}[keyof All];

/** An event of an operation, written by its process. `op` begins with the name of the process. */
export type OpEvent = Tagged<OpEvents, { at: number; op: string }>;
/** An event written by the harness. */
export type HarnessEvent = Tagged<HarnessEvents, { at: number }>;

/** An event of a run. `at` is the machine's monotonic clock in milliseconds, which is the same in all processes. */
export type Event = OpEvent | HarnessEvent;
export type EventOf<Kind extends Event['kind']> = Extract<Event, { kind: Kind }>;

/**
 * `busy`, `unavailable`, `closed`, `left`: it got no lock. `closed`: its process shuts down. `lost`: it noticed in time
 * that it had lost it.
 */
export type FailReason = 'busy' | 'unavailable' | 'closed' | 'left' | 'lost';

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
  /** The register without a fence, and the one behind a fence. */
  readonly register: readonly Write[];
  readonly fenced: readonly Write[];
  /** The elements of the set at the end. */
  readonly set: readonly string[];
  /** Keys of locks and queues that were left on the servers. */
  readonly leftovers: readonly string[];
}
