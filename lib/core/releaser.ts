import { handOffLease } from './ask.js';
import { type Clock, inTime } from './clock.js';
import { LockUnavailableError } from './errors.js';
import type { LockStore } from './lock-store.js';
import type { PassingLimits } from './tenure.js';

/** A lock to give back. */
export interface Release {
  readonly resource: string;
  readonly key: string;
  readonly owner: string;
  /** The lease of the hold: whoever is next gets one that is not longer, to begin with. */
  readonly leaseMs: number;
  /** The lock stays closed until then (`minHoldMs`); in the past: free it now. */
  readonly keepUntil: number;
  /** When the lease is over anyway, so that repeating makes no sense any more. */
  readonly leaseOverAt: number;
}

const FIRST_REPEAT_MS = 100;
const LONGEST_REPEAT_MS = 1000;

/**
 * Gives locks back. A release that failed is repeated until the store has answered or the lease is over: a lock that
 * nobody holds any more must not stay closed because one packet was lost. Releasing twice harms nothing.
 */
export class Releaser {
  private readonly unanswered = new Set<Promise<void>>();
  /** Ends the pauses between repeats. */
  private readonly wakers = new Set<() => void>();
  private closed = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly passing: PassingLimits,
  ) {}

  /**
   * Sends the release now. Answers the store's word; rejects with `LockUnavailableError` if there was none in time, and does
   * not keep the caller waiting for repeats.
   */
  release(release: Release): Promise<boolean> {
    const sentAt = this.clock.now();
    const answer = this.send(release);
    const end = this.untilAnswered(release, answer).finally(() => this.unanswered.delete(end));
    this.unanswered.add(end);
    return inTime(this.clock, this.requestTimeoutMs, answer, () => this.late(release, sentAt));
  }

  /** Like `release`, for a caller who is not interested in the answer. */
  releaseBehind(release: Release): void {
    this.release(release).catch(() => undefined);
  }

  /** Waits until all that was sent is answered, at most as long as one request may take. */
  async drain(): Promise<void> {
    const all = Promise.all(this.unanswered);
    await inTime<unknown>(this.clock, this.requestTimeoutMs, all, () => undefined);
  }

  close(): void {
    this.closed = true;
    for (const wake of this.wakers) wake();
  }

  private async untilAnswered(release: Release, first: Promise<boolean>): Promise<void> {
    let answer = first;
    for (let pauseMs = FIRST_REPEAT_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_REPEAT_MS)) {
      try {
        await answer;
        return;
      } catch (error) {
        const refusedForGood = error instanceof LockUnavailableError && error.permanent;
        if (refusedForGood || this.clock.now() + pauseMs >= release.leaseOverAt) return;
      }
      await this.pause(pauseMs);
      if (this.closed) return;
      answer = this.send(release);
    }
  }

  private send(release: Release): Promise<boolean> {
    const keepMs = Math.max(0, Math.ceil(release.keepUntil - this.clock.now()));
    const { key, owner, leaseMs } = release;
    // The next one's callers may pass it on as far as ours: instances of one application are set alike.
    const tokens = this.passing.maxLocalPasses + 1;
    return this.store.release({ keys: [key], owner, keepMs, handOffMs: handOffLease(leaseMs), tokens });
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

  private late({ resource }: Release, sentAt: number): never {
    const elapsedMs = this.clock.now() - sentAt;
    const message = `The release of ${resource} was not answered within ${this.requestTimeoutMs} ms.`;
    throw new LockUnavailableError(message, { resource, elapsedMs });
  }
}
