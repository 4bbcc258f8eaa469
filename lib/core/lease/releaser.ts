import { handoffLease } from './grant.js';
import { withTimeout } from '../time/clock.js';
import type { PooledClock } from '../time/timeout-pool.js';
import { LockUnavailableError } from '../errors.js';
import type { LockMode, LockStore } from '../store/lock-store.js';
import type { StoreHealth } from '../store/store-health.js';

/** A lock to release. */
export interface Release {
  readonly resource: string;
  readonly key: string;
  readonly owner: string;
  readonly mode: LockMode;
  /**
   * The longest lease that the lock may have, in milliseconds. A handoff gets no longer lease, and a failed release is
   * repeated for no longer than this.
   */
  readonly leaseMs: number;
  /** The local moment until which the lock stays closed (`minHoldMs`). 0, or a moment in the past: it is free now. */
  readonly keepUntil: number;
}

const FIRST_REPEAT_MS = 100;
const LONGEST_REPEAT_MS = 1000;

/**
 * Releases locks. Repeats a release that failed until the store has replied or the lease is over, so that a lost packet
 * does not keep a lock closed. Releasing twice has no further effect.
 */
export class Releaser {
  private unanswered = 0;
  private drained: (() => void) | undefined;
  /** End the pauses before a repetition. */
  private readonly wakers = new Set<() => void>();
  private closed = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: PooledClock,
    private readonly requestTimeoutMs: number,
    /** How many fencing tokens to reserve for the next holder. */
    private readonly tokens: number,
    /** How much longer than its lease a lock stays closed that is not given back (`lockDelayMs`). */
    private readonly lockDelayMs: number,
    private readonly health?: Pick<StoreHealth, 'onFailed' | 'onServed'>,
  ) {}

  /**
   * Sends the release now, and repeats it in the background if it fails. A caller need not handle the rejection.
   *
   * @returns whether the store still had the lock.
   * @throws LockUnavailableError if the first request failed or got no reply within `requestTimeoutMs`.
   */
  release(release: Release): Promise<boolean> {
    // The request that got this lease may still be in flight.
    const now = this.clock.now();
    const leaseOverAt = now + this.requestTimeoutMs + release.leaseMs + this.lockDelayMs;
    const reply = this.send(release);
    this.unanswered += 1;
    const released = new Promise<boolean>((resolve, reject) => {
      const late = (): void => {
        ignoreRejectionOf(released);
        reject(this.late(release));
      };
      const timer = this.clock.schedule(this.requestTimeoutMs, late, true, now);
      const onReply = (wasHeld: boolean): void => {
        timer.cancel();
        this.answered();
        if (wasHeld) this.health?.onServed('release', release.key);
        resolve(wasHeld);
      };
      const onError = (error: unknown): void => {
        timer.cancel();
        this.health?.onFailed('release', release.key, error);
        ignoreRejectionOf(released);
        reject(error);
        void this.repeat(release, leaseOverAt, error);
      };
      reply.then(onReply, onError);
    });
    return released;
  }

  /** Releases in the background. */
  releaseBehind(release: Release): void {
    void this.release(release);
  }

  /** Waits until all releases have a reply, for `requestTimeoutMs` at most. */
  async drain(): Promise<void> {
    if (this.unanswered === 0) return;
    const all = new Promise<void>((resolve) => (this.drained = resolve));
    await withTimeout(this.clock, this.requestTimeoutMs, all, () => undefined);
  }

  /** Stops repeating releases. */
  close(): void {
    this.closed = true;
    for (const wake of this.wakers) wake();
  }

  private async repeat(release: Release, leaseOverAt: number, failure: unknown): Promise<void> {
    let error = failure;
    for (let pauseMs = FIRST_REPEAT_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_REPEAT_MS)) {
      const permanent = error instanceof LockUnavailableError && error.permanent;
      if (permanent || this.clock.now() + pauseMs >= leaseOverAt) break;
      await this.pause(pauseMs);
      if (this.closed) break;
      try {
        if (await this.send(release)) this.health?.onServed('release', release.key);
        break;
      } catch (again) {
        this.health?.onFailed('release', release.key, again);
        error = again;
      }
    }
    this.answered();
  }

  private answered(): void {
    this.unanswered -= 1;
    if (this.unanswered === 0) this.drained?.();
  }

  private send(release: Release): Promise<boolean> {
    const { key, owner, mode, leaseMs, keepUntil } = release;
    const keepMs = keepUntil === 0 ? 0 : Math.max(0, Math.ceil(keepUntil - this.clock.now()));
    const handoffMs = handoffLease(Math.max(1, leaseMs));
    try {
      return this.store.release({ keys: [key], owner, mode, keepMs, handoffMs, tokens: this.tokens });
    } catch (error) {
      // A store that throws instead of rejecting must not keep the caller from serving the next waiter.
      return Promise.reject(error);
    }
  }

  private pause(pauseMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        timer.cancel();
        this.wakers.delete(wake);
        resolve();
      };
      const timer = this.clock.schedule(pauseMs, wake, true);
      this.wakers.add(wake);
    });
  }

  private late({ resource }: Release): LockUnavailableError {
    const elapsedMs = this.requestTimeoutMs;
    const message = `The release of ${resource} got no reply within ${this.requestTimeoutMs} ms.`;
    return new LockUnavailableError(message, { resource, elapsedMs });
  }
}

/** A caller that does not await the promise must not end the process by an unhandled rejection. */
function ignoreRejectionOf(promise: Promise<unknown>): void {
  promise.catch(() => undefined);
}
