import type { LocalHold, LocalLockState, LocalWaiter } from '../core/state/local-state.js';
import { identityOf } from '../core/store/instance-id.js';
import type { StorePing } from '../core/store/store-ping.js';
import type { Clock } from '../core/time/clock.js';
import type { LockHolder, LockInfo, LockWaiter } from '../lock-info.js';
import { type ForceReleaseOptions, isLockService, type LockService } from '../lock.service.js';

/** A holder as the board shows it. */
export interface BoardHolder extends Pick<LockHolder, 'identity' | 'wireVersion'> {
  readonly holder: string | undefined;
}

/** An instance in a queue. */
export type BoardWaiter = Pick<LockWaiter, 'waiter' | 'identity' | 'mode' | 'permits' | 'wireVersion'>;

/**
 * The callers of this instance that wait for one lock, with the time, the method and the label of the first one. In
 * Redis the instance is in the queue once, or not at all.
 */
export interface BoardCallers extends Pick<LocalWaiter, 'waitedMs' | 'method' | 'label'> {
  readonly count: number;
}

/** What the board takes from the description of a lock. */
type ShownLock = Pick<
  LockInfo,
  'resource' | 'key' | 'expiresInMs' | 'fencingToken' | 'mode' | 'permits' | 'heldForMs' | 'method' | 'label'
>;

/** A lock as the board reads it. Its holder is undefined if others wait for it and nobody is known to hold it. */
export interface BoardLock extends BoardHolder, ShownLock {
  readonly others: readonly BoardHolder[];
  readonly waiting: readonly BoardWaiter[];
  /** Undefined if no caller of this instance waits. */
  readonly callers?: BoardCallers | undefined;
}

/** What the board reads, and the one thing that it changes. A test can pass its own. */
export interface BoardSource {
  /** The identity that other instances see. Undefined if it has no identity. */
  readonly identity: string | undefined;
  /** Reads all locks that are held or waited for. */
  list(): AsyncIterable<BoardLock>;
  /** Returns what this instance holds and waits for, without Redis. */
  local(): Iterable<BoardLock>;
  /** Sends a request to each server. */
  ping(): Promise<StorePing>;
  /** Returns whether the lock is held exclusively now. */
  isExclusive(resource: string): Promise<boolean>;
  /** Ends a hold. Returns false if the lock is not held, or is held under a token other than `ifToken`. */
  forceRelease(resource: string, options: ForceReleaseOptions): Promise<boolean>;
}

/** Reads a lock service. */
export class LockServiceSource implements BoardSource {
  readonly identity: string | undefined;

  constructor(
    private readonly locks: LockService,
    private readonly clock: Clock,
  ) {
    // A mock of the service has no engine.
    this.identity = isLockService(locks) ? identityOf(locks.engine.instanceId) : undefined;
  }

  async *list(): AsyncGenerator<BoardLock, void, undefined> {
    const readAt = this.clock.now();
    const local = byKey(this.locks.local());
    for await (const lock of this.locks.list()) {
      const own = local.get(lock.key);
      yield own === undefined ? lock : withOwn(lock, own, this.clock.now() - readAt);
    }
  }

  local(): readonly BoardLock[] {
    return [...byKey(this.locks.local())].map(([key, own]) => this.toLock(key, own));
  }

  // Asynchronous, so that a mock without the method rejects.
  async ping(): Promise<StorePing> {
    return this.locks.ping();
  }

  async isExclusive(resource: string): Promise<boolean> {
    return (await this.locks.inspect(resource))?.mode === 'exclusive';
  }

  async forceRelease(resource: string, options: ForceReleaseOptions): Promise<boolean> {
    return this.locks.forceRelease(resource, options);
  }

  private toLock(key: string, { holds, waiting }: OwnLock): BoardLock {
    const [first, ...others] = holds;
    const toHolder = ({ id }: LocalHold): BoardHolder => ({ holder: id, identity: this.identity });
    const common = { key, others: others.map(toHolder), waiting: [], callers: callersOf(waiting, 0) };
    if (first === undefined) {
      // Only Redis knows the holder.
      const { resource } = waiting[0];
      const none = { holder: undefined, identity: undefined, fencingToken: undefined, permits: undefined };
      return { ...common, ...none, resource, expiresInMs: 0, mode: undefined };
    }
    const { resource, mode, permits, fencingToken, heldMs: heldForMs, expiresInMs, method, label } = first;
    const call = { resource, mode, permits, method, label };
    return { ...common, ...call, ...toHolder(first), fencingToken, heldForMs, expiresInMs };
  }
}

/** The holds and the waiting callers of this instance for one key, the oldest first. */
interface OwnLock {
  readonly holds: LocalHold[];
  readonly waiting: LocalWaiter[];
}

function byKey({ holds, waiting }: LocalLockState): ReadonlyMap<string, OwnLock> {
  const found = new Map<string, OwnLock>();
  const of = (key: string): OwnLock => {
    const own = found.get(key) ?? { holds: [], waiting: [] };
    found.set(key, own);
    return own;
  };
  for (const hold of holds) of(hold.key).holds.push(hold);
  for (const waiter of waiting) of(waiter.key).waiting.push(waiter);
  return found;
}

/**
 * Adds what only this instance knows: what work it holds the lock for, and which of its callers wait.
 *
 * @param passedMs the time since `own` was read.
 */
function withOwn(lock: BoardLock & Pick<LockHolder, 'isOwn'>, own: OwnLock, passedMs: number): BoardLock {
  const callers = callersOf(own.waiting, passedMs);
  const hold = lock.isOwn ? own.holds.find((each) => isOfGrant(each, lock.fencingToken)) : undefined;
  if (hold === undefined) return { ...lock, callers };
  return { ...lock, callers, heldForMs: hold.heldMs + passedMs, method: hold.method, label: hold.label };
}

/**
 * Returns whether a hold belongs to the grant in Redis. The grant may be a later one. A lock that was passed on inside
 * the instance has a higher token than its grant.
 */
function isOfGrant({ fencingToken: own }: LocalHold, granted: number | undefined): boolean {
  return own === undefined || granted === undefined || own >= granted;
}

function callersOf([first, ...others]: readonly LocalWaiter[], passedMs: number): BoardCallers | undefined {
  if (first === undefined) return undefined;
  const { waitedMs, method, label } = first;
  return { count: 1 + others.length, waitedMs: waitedMs + passedMs, method, label };
}
