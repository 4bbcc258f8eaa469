import { type Clock, inTime, type Timer } from './clock.js';
import { LockUnavailableError } from './errors.js';
import type { LockStore } from './lock-store.js';

/** A lock to give back. */
export interface Release {
  readonly resource: string;
  readonly key: string;
  readonly owner: string;
  /** The lock stays closed until then (`minHoldMs`); in the past: free it now. */
  readonly keepUntil: number;
  /** When the lease is over anyway, so that repeating makes no sense any more. */
  readonly leaseOverAt: number;
}

const FIRST_REPEAT_MS = 100;
const LAST_REPEAT_MS = 1000;

/**
 * Gives locks back. A release that failed is repeated until the store has answered or the lease is over: a lock that
 * nobody holds any more must not stay closed because one packet was lost. Releasing twice harms nothing.
 */
export class Releaser {
  private readonly repeats = new Set<Timer>();
  private closed = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
  ) {}

  /** Sends the release now. Answers the store's word; rejects with `LockUnavailableError` if there was none in time. */
  release(release: Release): Promise<boolean> {
    const sentAt = this.clock.now();
    const answer = this.send(release);
    answer.catch((error: unknown) => this.repeatLater(release, error, FIRST_REPEAT_MS));
    return inTime(this.clock, this.requestTimeoutMs, answer, () => this.late(release, sentAt));
  }

  /** Like `release`, for a caller who is not interested in the answer. */
  releaseBehind(release: Release): void {
    this.release(release).catch(() => undefined);
  }

  close(): void {
    this.closed = true;
    for (const timer of this.repeats) timer.cancel();
    this.repeats.clear();
  }

  private send(release: Release): Promise<boolean> {
    const keepMs = Math.max(0, Math.ceil(release.keepUntil - this.clock.now()));
    return this.store.release({ keys: [release.key], owner: release.owner, keepMs });
  }

  private late({ resource }: Release, sentAt: number): never {
    const elapsedMs = this.clock.now() - sentAt;
    const message = `The release of ${resource} was not answered within ${this.requestTimeoutMs} ms.`;
    throw new LockUnavailableError(message, { resource, elapsedMs });
  }

  private repeatLater(release: Release, error: unknown, delayMs: number): void {
    const refusedForGood = error instanceof LockUnavailableError && error.permanent;
    if (this.closed || refusedForGood || this.clock.now() + delayMs >= release.leaseOverAt) return;
    const timer = this.clock.schedule(
      delayMs,
      () => {
        this.repeats.delete(timer);
        this.send(release).catch((again: unknown) =>
          this.repeatLater(release, again, Math.min(delayMs * 2, LAST_REPEAT_MS)),
        );
      },
      true,
    );
    this.repeats.add(timer);
  }
}
