import { latestCall } from './events/call.js';
import { LockClosedError } from './errors.js';
import { atEndOfTick, type Clock, type Timer } from './time/clock.js';

/** What has to end before an engine is closed. */
export interface Lives {
  /** Returns whether a call up to this number waits for a lock or holds one. */
  hasCalls(last: number): boolean;
  /** Returns whether there are holds. */
  hasHolds(): boolean;
  /** Rejects waiting callers that do not run in a hold. */
  refuse(): void;
}

/**
 * The life of one engine. `open` and `stopping` admit all callers. `draining` admits only callers inside a hold,
 * because the hold has to finish. `closed` admits none.
 */
export class Lifecycle {
  private phase: 'open' | 'stopping' | 'draining' | 'closed' = 'open';
  private graceTimer: Timer | undefined;
  private graceEndsAt: number | undefined;
  private settled: Promise<void> | undefined;
  private readonly checks = new Set<() => void>();
  private isDue = false;

  constructor(
    private readonly clock: Clock,
    private readonly lives: Lives,
  ) {}

  get isOpen(): boolean {
    return this.phase === 'open';
  }

  /** @throws LockClosedError if the phase does not admit the caller. */
  admit(resource: string, nested: boolean): void {
    if (this.phase === 'closed' || (this.phase === 'draining' && !nested)) throw closedError(resource);
  }

  /** Called when a call has ended without a lock, and when a hold has ended. */
  onEnded(): void {
    if (this.checks.size === 0 || this.isDue) return;
    this.isDue = true;
    // Once a tick, because many holds may end in one, and because a call may be between two requests.
    atEndOfTick(() => {
      this.isDue = false;
      this.check();
    });
  }

  begin(): void {
    this.phase = 'stopping';
  }

  /**
   * Waits until the calls so far, and their holds, have ended.
   *
   * @param onGraceOver called after `graceMs` milliseconds, unless {@link drain} was called before.
   */
  settle(graceMs: number, onGraceOver: () => void): Promise<void> {
    if (this.phase === 'stopping' && this.settled === undefined) {
      this.graceEndsAt = this.clock.now() + graceMs;
      this.graceTimer = this.clock.schedule(graceMs, onGraceOver);
      const last = latestCall();
      // Once `drain` has begun, only its end counts.
      this.settled = this.until(
        () => this.phase === 'closed' || (this.phase === 'stopping' && !this.lives.hasCalls(last)),
      );
    }
    return this.settled ?? Promise.resolve();
  }

  /** Refuses all callers that do not run in a hold, and waits for the holds until `graceMs` has elapsed. */
  async drain(graceMs: number): Promise<void> {
    const now = this.clock.now();
    const restMs = Math.max(0, (this.graceEndsAt ?? now + graceMs) - now);
    this.graceTimer?.cancel();
    this.phase = 'draining';
    this.lives.refuse();
    let isOver = false;
    const ended = this.until(() => isOver || !this.lives.hasHolds());
    const timer = this.clock.schedule(restMs, () => {
      isOver = true;
      this.check();
    });
    await ended;
    timer.cancel();
    this.phase = 'closed';
    this.check();
  }

  private until(isOver: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!isOver()) return;
        this.checks.delete(check);
        resolve();
      };
      this.checks.add(check);
      check();
    });
  }

  private check(): void {
    for (const check of this.checks) check();
  }
}

/** Returns the error for a caller that comes while the application is shutting down. */
export function closedError(resource: string): LockClosedError {
  return new LockClosedError(`${resource} cannot be locked: the application is shutting down.`, { resource });
}
