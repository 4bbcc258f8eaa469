import type { Clock } from './clock.js';

/** Pauses of background work, all of which can be ended together. They do not keep the process alive. */
export class Pauses {
  private readonly wakers = new Set<() => void>();

  constructor(private readonly clock: Clock) {}

  /** Resolves in `pauseMs` milliseconds, or when all pauses are ended. */
  pause(pauseMs: number): Promise<void> {
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

  /** Ends all current pauses. */
  endAll(): void {
    for (const wake of this.wakers) wake();
  }
}
