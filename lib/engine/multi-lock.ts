import { inspect, type InspectOptions } from 'node:util';
import { formatValue, shortened } from '../common/format-value.js';
import { LockKeyError, type LockLostError } from '../common/errors.js';
import { inspectFields } from '../common/inspect-fields.js';
import { endOf, expireAll, type Hold } from './hold.js';
import type { Lock } from './lock.js';
import type { Parts } from './lock-engine.js';

/**
 * Several locks that were acquired together, by `LockService` or by a `@Locked` method that names several resources.
 * Each lock has its own lease and fencing token. `signal` aborts as soon as one of them is lost.
 *
 * @publicApi
 */
export class MultiLock implements Hold {
  /** The locks in the order in which they were requested, without duplicates. */
  readonly locks: readonly Lock[];
  private ending: Promise<boolean> | undefined;
  private aborted = false;

  /** @internal */
  constructor(private readonly byResource: ReadonlyMap<string, Lock>) {
    this.locks = [...new Set(byResource.values())];
    for (const lock of this.locks) {
      lock.isOfSeveral = true;
      lock.onAbort((reason) => this.abort(reason));
    }
  }

  /** The resources that the caller named, `['account:1', 'account:2']`, without duplicates. */
  get resources(): readonly string[] {
    return [...this.byResource.keys()];
  }

  /**
   * Returns the lock of one resource, for example for its fencing token.
   *
   * @throws LockKeyError if the resource is not among `resources`.
   */
  of(resource: string): Lock {
    const lock = this.byResource.get(resource);
    if (lock !== undefined) return lock;
    throw new LockKeyError(
      `${formatValue(resource)} is not among these locks; expected ${shortened(this.resources.join(', '))}.`,
      { resource },
    );
  }

  /** Aborts with a `LockLostError` as soon as one of the locks is known to be lost. See `Lock.signal`. */
  get signal(): AbortSignal {
    // A caller that follows the signal relies on all locks.
    const [signal] = this.locks.map((lock) => lock.signal);
    return signal;
  }

  /** The time until the earliest local deadline, in milliseconds. 0 once one of the locks has ended. */
  get expiresInMs(): number {
    return Math.min(...this.locks.map(({ expiresInMs }) => expiresInMs));
  }

  /** Returns what logs show of the locks. `expiresInMs` is in whole milliseconds. */
  toJSON(): object {
    return { resources: this.resources, expiresInMs: Math.floor(this.expiresInMs) };
  }

  /** Shows the fields of {@link toJSON}. @internal */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return `MultiLock ${inspectFields(this.toJSON(), options)}`;
  }

  /**
   * Checks all locks against their local deadlines, without a request to Redis.
   *
   * @throws LockLostError if one is lost, its lease has expired, or it was released.
   */
  assertHeld(): void {
    for (const lock of this.locks) lock.assertHeld();
  }

  /**
   * Gives all locks new leases, counted from now. See `Lock.extend`.
   *
   * @param ttlMs the new lease of each lock in milliseconds. Default: the length of its current lease.
   * @throws LockLostError if one is lost.
   * @throws LockUnavailableError if the store sent no reply for one. All are still held until their local deadlines.
   * @throws LockConfigError if `ttlMs` is not allowed.
   */
  async extend(ttlMs?: number): Promise<void> {
    await this.expire();
    this.assertHeld();
    await Promise.all(this.locks.map((lock) => lock.extend(ttlMs)));
  }

  /**
   * Releases all locks. A second call returns the result of the first.
   *
   * @returns false if one was lost.
   * @throws LockUnavailableError if the store sent no reply for one. All others are released. See `Lock.release`.
   */
  release(): Promise<boolean> {
    if (this.ending === undefined) {
      this.ending = this.releaseAll();
      // A caller that does not await the promise must not end the process with an unhandled rejection.
      this.ending.catch(() => undefined);
    }
    return this.ending;
  }

  private async releaseAll(): Promise<boolean> {
    const results = await Promise.allSettled(this.locks.map((lock) => lock.release()));
    const failure = results.find((result) => result.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
    return results.every((result) => result.status === 'fulfilled' && result.value);
  }

  /** Releases the locks at the end of an `await using` block. Ignores a store that sends no reply. */
  async [Symbol.asyncDispose](): Promise<void> {
    await endOf(this);
  }

  /** Returns a multi-lock of other holds of the same locks. @internal */
  map(other: (lock: Lock) => Lock): MultiLock {
    return new MultiLock(new Map([...this.byResource].map(([resource, lock]) => [resource, other(lock)])));
  }

  /** See {@link Hold.isOver}. @internal */
  get isOver(): boolean {
    return this.locks.every(({ isOver }) => isOver);
  }

  /** See {@link Hold.find}. @internal */
  find(parts: Parts, key?: string): Lock | undefined {
    return this.locks.find((lock) => lock.find(parts, key) !== undefined);
  }

  /** See {@link Hold.awaitsRelease}. @internal */
  get awaitsRelease(): boolean {
    return this.locks.some((lock) => lock.awaitsRelease);
  }

  /** @internal */
  get loss(): LockLostError | undefined {
    return this.locks.find(({ loss }) => loss !== undefined)?.loss;
  }

  /** See {@link Hold.expire}. @internal */
  expire(): Promise<void> | undefined {
    return expireAll(this.locks);
  }

  /** @internal */
  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    for (const lock of this.locks) lock.abort(reason);
  }
}
