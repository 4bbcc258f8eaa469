import { handoffLease } from '../acquire/attempt.js';
import { type Clock, withTimeout } from '../time/clock.js';
import { LockUnavailableError } from '../errors.js';
import type { LockMode, LockStore } from '../store/lock-store.js';
import type { PassingLimits } from '../acquire/local-handoff.js';

/** A lock to give back. */
export interface Release {
  readonly resource: string;
  readonly key: string;
  readonly owner: string;
  readonly mode: LockMode;
  /**
   * The longest lease that it may have. Whoever is next gets one that is not longer, to begin with; and when that much
   * time has passed, repeating makes no sense any more.
   */
  readonly leaseMs: number;
  /** The lock stays closed until then (`minHoldMs`); 0 or in the past: free it now. */
  readonly keepUntil: number;
}

const FIRST_REPEAT_MS = 100;
const LONGEST_REPEAT_MS = 1000;

/**
 * Gives locks back. A release that failed is repeated until the store has answered or the lease is over: a lock that
 * nobody holds any more must not stay closed because one packet was lost. Releasing twice harms nothing.
 */
export class Releaser {
  private unanswered = 0;
  private drained: (() => void) | undefined;
  /** Ends the pauses between repeats. */
  private readonly wakers = new Set<() => void>();
  private closed = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly passing: PassingLimits,
    /** How much longer than its lease a lock stays closed that is not given back (`lockDelayMs`). */
    private readonly lockDelayMs: number,
  ) {}

  /**
   * Sends the release now. Answers the store's word; rejects with `LockUnavailableError` if there was none in time, and
   * does not keep the caller waiting for repeats.
   */
  release(release: Release): Promise<boolean> {
    // Whatever gave it that lease may still be on its way.
    const leaseOverAt = this.clock.now() + this.requestTimeoutMs + release.leaseMs + this.lockDelayMs;
    const answer = this.send(release);
    this.unanswered += 1;
    return new Promise((resolve, reject) => {
      const late = (): void => reject(this.late(release));
      const timer = this.clock.schedule(this.requestTimeoutMs, late, true);
      const answered = (wasHeld: boolean): void => {
        timer.cancel();
        this.answered();
        resolve(wasHeld);
      };
      const failed = (error: unknown): void => {
        timer.cancel();
        reject(error);
        void this.repeat(release, leaseOverAt, error);
      };
      answer.then(answered, failed);
    });
  }

  /** Like `release`, for a caller who is not interested in the answer. */
  releaseBehind(release: Release): void {
    this.release(release).catch(() => undefined);
  }

  /** Waits until all that was sent is answered, at most as long as one request may take. */
  async drain(): Promise<void> {
    if (this.unanswered === 0) return;
    const all = new Promise<void>((resolve) => (this.drained = resolve));
    await withTimeout(this.clock, this.requestTimeoutMs, all, () => undefined);
  }

  close(): void {
    this.closed = true;
    for (const wake of this.wakers) wake();
  }

  private async repeat(release: Release, leaseOverAt: number, failure: unknown): Promise<void> {
    let error = failure;
    for (let pauseMs = FIRST_REPEAT_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_REPEAT_MS)) {
      const refusedForGood = error instanceof LockUnavailableError && error.permanent;
      if (refusedForGood || this.clock.now() + pauseMs >= leaseOverAt) break;
      await this.pause(pauseMs);
      if (this.closed) break;
      try {
        await this.send(release);
        break;
      } catch (again) {
        error = again;
      }
    }
    this.answered();
  }

  /** There is nothing more to expect of a release. */
  private answered(): void {
    this.unanswered -= 1;
    if (this.unanswered === 0) this.drained?.();
  }

  private send(release: Release): Promise<boolean> {
    const { key, owner, mode, leaseMs, keepUntil } = release;
    const keepMs = keepUntil === 0 ? 0 : Math.max(0, Math.ceil(keepUntil - this.clock.now()));
    // The next one's callers may pass it on as far as ours: instances of one application are set alike.
    const tokens = this.passing.maxLocalPasses + 1;
    return this.store.release({ keys: [key], owner, mode, keepMs, handoffMs: handoffLease(leaseMs), tokens });
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
    const message = `The release of ${resource} was not answered within ${this.requestTimeoutMs} ms.`;
    return new LockUnavailableError(message, { resource, elapsedMs });
  }
}
