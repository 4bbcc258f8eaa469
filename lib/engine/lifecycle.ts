import { LockClosedError } from '../common/errors.js';
import { atEndOfTick, type Clock } from '../clock/clock.js';

/** The life of one engine: which callers it admits, and what a shutdown waits for. */
export class Lifecycle {
  /**
   * `open` and `stopping` admit all callers. `draining` admits only callers inside a hold, because the hold has to
   * finish. `closed` admits none.
   */
  phase: 'open' | 'stopping' | 'draining' | 'closed' = 'open';
  /** Whether a call has come since this was set to false. */
  isUsed = false;
  private readonly checks = new Set<() => void>();
  private isDue = false;

  constructor(private readonly clock: Clock) {}

  /** @throws LockClosedError if the phase does not admit the caller. */
  checkOpen(resource: string, nested: boolean): void {
    this.isUsed = true;
    if (this.phase === 'closed' || (this.phase === 'draining' && !nested)) throw closedError(resource);
  }

  /** Called when a call has ended without a lock, and when a hold, a request, a release or a phase has ended. */
  onEnded(): void {
    if (this.checks.size === 0 || this.isDue) return;
    this.isDue = true;
    // Once a tick, because many holds may end in one, and because a call may be between two requests.
    atEndOfTick(() => {
      this.isDue = false;
      for (const check of this.checks) check();
    });
  }

  /** Waits until `isOver` returns true after something has ended, at most for `limitMs`. */
  until(isOver: () => boolean, limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        this.checks.delete(check);
        resolve();
      };
      const check = (): void => {
        if (isOver()) end();
      };
      const timer = this.clock.schedule(limitMs, end);
      this.checks.add(check);
      check();
    });
  }
}

/** Returns the error for a caller that comes while the application is shutting down. */
export function closedError(resource: string): LockClosedError {
  return new LockClosedError(`${resource} cannot be locked: the application is shutting down.`, { resource });
}
