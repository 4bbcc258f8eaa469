import { LockKeyError, type LockLostError } from '../errors.js';
import type { Hold, Lock } from './lock.js';

/**
 * Several locks that were taken together, by `LockService` or by a `@Locked` method that names several resources. Each
 * has a lease and a fencing token of its own; the work is told as soon as one of them is lost.
 *
 * @publicApi
 */
export class MultiLock implements Hold {
  /** Each lock once, in the order in which they were asked for. */
  readonly locks: readonly Lock[];
  private ending: Promise<boolean> | undefined;
  private aborted = false;

  /** @internal */
  constructor(private readonly byResource: ReadonlyMap<string, Lock>) {
    this.locks = [...new Set(byResource.values())];
    for (const { signal } of this.locks) {
      if (signal.aborted) this.abort(signal.reason);
      else signal.addEventListener('abort', () => this.abort(signal.reason), { once: true });
    }
  }

  /** What was asked for, `['account:1', 'account:2']`, each once. */
  get resources(): readonly string[] {
    return [...this.byResource.keys()];
  }

  /**
   * The lock of one of the resources: for its fencing token.
   *
   * @throws LockKeyError if it was not asked for.
   */
  of(resource: string): Lock {
    const lock = this.byResource.get(resource);
    if (lock !== undefined) return lock;
    throw new LockKeyError(`${resource} is not among these locks: ${this.resources.join(', ')}.`, { resource });
  }

  /** Aborts with a `LockLostError` as soon as one of the locks is known to be lost; see `Lock.signal`. */
  get signal(): AbortSignal {
    return this.locks[0].signal;
  }

  /** How long all of them can still be believed in without a renewal, in milliseconds; 0 once one has ended. */
  get expiresInMs(): number {
    return Math.min(...this.locks.map(({ expiresInMs }) => expiresInMs));
  }

  /**
   * Checks all against their local deadlines, without asking Redis.
   *
   * @throws LockLostError if one is lost, its lease has run out, or it was released already.
   */
  assertHeld(): void {
    for (const lock of this.locks) lock.assertHeld();
  }

  /**
   * Takes new leases, counted from now; see `Lock.extend`.
   *
   * @param ttlMs the new lease of each in milliseconds; its present one by default.
   * @throws LockLostError if one is not ours any more.
   * @throws LockUnavailableError if the store gave no answer for one: all are held still, until their deadlines.
   * @throws LockConfigError if `ttlMs` is not a lease.
   */
  async extend(ttlMs?: number): Promise<void> {
    this.assertHeld();
    await Promise.all(this.locks.map((lock) => lock.extend(ttlMs)));
  }

  /**
   * Ends all of them. Calling it again answers as the first time.
   *
   * @returns false if one was lost already.
   * @throws LockUnavailableError if the store gave no answer for one; see `Lock.release`. All others are released.
   */
  release(): Promise<boolean> {
    if (this.ending === undefined) {
      this.ending = this.releaseAll();
      // As of one lock: who does not wait for the answer must not end the process by not having caught it.
      this.ending.catch(() => undefined);
    }
    return this.ending;
  }

  private async releaseAll(): Promise<boolean> {
    const answers = await Promise.allSettled(this.locks.map((lock) => lock.release()));
    const failure = answers.find((answer) => answer.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
    return answers.every((answer) => answer.status === 'fulfilled' && answer.value);
  }

  /**
   * Releases, so that `await using locks = await service.acquire([…])` does; keeps quiet where the store gave no
   * answer.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /** @internal */
  get loss(): LockLostError | undefined {
    return this.locks.find(({ loss }) => loss !== undefined)?.loss;
  }

  /** @internal */
  noticeExpiry(): void {
    for (const lock of this.locks) lock.noticeExpiry();
  }

  /** @internal */
  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    for (const lock of this.locks) lock.abort(reason);
  }
}
