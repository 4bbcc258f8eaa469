import { latestCall } from '../events/call.js';
import { LockClosedError } from '../common/errors.js';
import { atEndOfTick, type Clock, type Timer } from '../clock/clock.js';

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
  private idleTimer: Timer | undefined;
  private graceEndsAt: number | undefined;
  private settled: Promise<void> | undefined;
  private readonly checks = new Set<() => void>();
  private isDue = false;
  /** Whether a call has come since {@link whenIdle} looked. */
  private isUsed = false;

  constructor(
    private readonly clock: Clock,
    private readonly lives: Lives,
  ) {}

  get isOpen(): boolean {
    return this.phase === 'open';
  }

  /** @throws LockClosedError if the phase does not admit the caller. */
  checkOpen(resource: string, nested: boolean): void {
    this.isUsed = true;
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
   * Waits until the calls so far, and their holds, have ended, or until `graceMs` milliseconds have elapsed. Later
   * calls are admitted.
   *
   * @param onGraceOver called with the number of the last of these calls, if the time has elapsed before.
   */
  settle(graceMs: number, onGraceOver: (last: number) => void): Promise<void> {
    if (this.phase === 'stopping' && this.settled === undefined) {
      const last = latestCall();
      let isOver = false;
      this.graceEndsAt = this.clock.now() + graceMs;
      this.graceTimer = this.clock.schedule(graceMs, () => {
        isOver = true;
        onGraceOver(last);
        this.check();
      });
      // Once `drain` has begun, only its end counts.
      this.settled = this.until(
        () => this.phase === 'closed' || (this.phase === 'stopping' && (isOver || !this.lives.hasCalls(last))),
      ).then(() => this.graceTimer?.cancel());
    }
    return this.settled ?? Promise.resolve();
  }

  /**
   * Calls `onIdle` once no lock was held, waited for or requested for `idleMs` milliseconds. Does not keep the process
   * alive.
   */
  whenIdle(idleMs: number, onIdle: () => void): void {
    // Not by the number of the latest call, which another application of the process may have made.
    this.isUsed = false;
    const look = (): void => {
      if (this.isUsed || this.lives.hasCalls(latestCall())) this.whenIdle(idleMs, onIdle);
      else onIdle();
    };
    this.idleTimer = this.clock.schedule(idleMs, look, true);
  }

  /** Refuses all callers that do not run in a hold, and waits for the holds until `graceMs` has elapsed. */
  async drain(graceMs: number): Promise<void> {
    const now = this.clock.now();
    const restMs = Math.max(0, (this.graceEndsAt ?? now + graceMs) - now);
    this.graceTimer?.cancel();
    this.idleTimer?.cancel();
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
