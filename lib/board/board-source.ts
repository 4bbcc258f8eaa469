import { LockConfigError } from '../core/errors.js';
import { identityOf } from '../core/store/instance-id.js';
import type { LockSharing } from '../lock-info.js';
import { isLockService, type LockService } from '../lock.service.js';

/** A holder as the board shows it. */
export interface BoardHolder {
  readonly holder: string | undefined;
  readonly identity: string | undefined;
}

/** A lock as the board reads it. Its holder is undefined if others wait for it and nobody holds it. */
export interface BoardLock extends BoardHolder {
  readonly resource: string;
  readonly key: string;
  readonly expiresInMs: number | undefined;
  readonly fencingToken: number | undefined;
  readonly mode: 'exclusive' | 'shared' | undefined;
  readonly permits: number | undefined;
  readonly others: readonly BoardHolder[];
  readonly waiting: readonly BoardWaiter[];
  readonly isOwn?: boolean;
  /** For how long the first holder has had the lock. Undefined if the store does not know it. */
  readonly heldForMs?: number | undefined;
  readonly method?: string | undefined;
  readonly label?: string | undefined;
}

/** An instance in a queue. */
export interface BoardWaiter extends LockSharing {
  readonly waiter: string;
  readonly identity: string | undefined;
}

/** The state of the servers that keep the locks. */
export interface BoardPing {
  readonly handoff: 'subscription' | 'polling';
  readonly degraded: string | undefined;
  readonly isUp: boolean;
  readonly servers: readonly BoardServer[];
}

/** One server. */
export interface BoardServer {
  readonly server: string;
  readonly isUp: boolean;
  readonly latencyMs: number | undefined;
  readonly error: string | undefined;
}

/** What the board reads, and the one thing that it changes. A test can pass its own. */
export interface BoardSource {
  /** What other instances know this one by. Undefined if it has no identity. */
  readonly identity: string | undefined;
  /** Reads all locks that are held or waited for. */
  list(): AsyncIterable<BoardLock>;
  /** Returns what this instance holds and waits for, without Redis. */
  local(): Iterable<BoardLock>;
  /** Sends a request to each server. */
  ping(): Promise<BoardPing>;
  /** Ends a hold. Returns false if the lock is not held, or by another token than `ifToken`. */
  forceRelease(resource: string, options: { readonly ifToken?: number }): Promise<boolean>;
}

/** A hold of this instance, as `LockService.local()` returns it. */
interface LocalHold extends LockSharing {
  readonly id: string;
  readonly resource: string;
  readonly key: string;
  readonly fencingToken: number | undefined;
  readonly heldMs: number;
  readonly expiresInMs: number;
  readonly method?: string | undefined;
  readonly label?: string | undefined;
}

/** The methods that the board calls. A mock of the lock service may not have them. */
interface Observed {
  list?(): AsyncIterable<BoardLock>;
  local?(): { readonly holds: readonly LocalHold[] };
  ping?(): Promise<BoardPing>;
  forceRelease?(resource: string, options: { readonly ifToken?: number }): Promise<boolean>;
}

/** Reads a lock service. */
export class LockServiceSource implements BoardSource {
  readonly identity: string | undefined;
  private readonly locks: Observed;

  constructor(locks: LockService) {
    this.locks = locks as unknown as Observed;
    this.identity = isLockService(locks) ? identityOf(locks.engine.instanceId) : undefined;
  }

  async *list(): AsyncIterable<BoardLock> {
    const locks = this.locks.list?.() ?? missing('list');
    const own = new Map(this.locks.local?.().holds.map((hold) => [hold.key, hold]));
    for await (const lock of locks) {
      const hold = lock.isOwn === true ? own.get(lock.key) : undefined;
      // Redis knows who holds a lock, and only the holder knows for which work.
      yield hold === undefined ? lock : { ...lock, heldForMs: hold.heldMs, method: hold.method, label: hold.label };
    }
  }

  local(): Iterable<BoardLock> {
    const { holds } = this.locks.local?.() ?? missing('local');
    const byKey = new Map<string, readonly LocalHold[]>();
    for (const hold of holds) byKey.set(hold.key, [...(byKey.get(hold.key) ?? []), hold]);
    return [...byKey.values()].map(([first, ...others]) => this.toLock(first, others));
  }

  async ping(): Promise<BoardPing> {
    return (await this.locks.ping?.()) ?? missing('ping');
  }

  async forceRelease(resource: string, options: { readonly ifToken?: number }): Promise<boolean> {
    return (await this.locks.forceRelease?.(resource, options)) ?? missing('forceRelease');
  }

  private toLock({ heldMs, ...hold }: LocalHold, others: readonly LocalHold[]): BoardLock {
    const toHolder = ({ id }: LocalHold): BoardHolder => ({ holder: id, identity: this.identity });
    return {
      ...hold,
      holder: hold.id,
      identity: this.identity,
      heldForMs: heldMs,
      others: others.map(toHolder),
      waiting: [],
    };
  }
}

function missing(method: string): never {
  throw new LockConfigError(`The lock service of this application has no method ${method}().`);
}
