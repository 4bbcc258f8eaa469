import { type AbortSubscription, onAbort, throwIfAborted } from '../context/abort-signals.js';
import type { Lock } from '../hold/lock.js';
import type { Grant, GrantWaiter } from '../lease/grant.js';
import type { Clock, Timer } from '../time/clock.js';
import { usedInScope } from './acquire-errors.js';
import type { WaitOptions } from './acquire-options.js';

/** A request of a caller in a lock scope for a lock that the scope keeps and another caller uses. */
export interface UseRequest {
  readonly options: Pick<WaitOptions, 'waitMs' | 'signal'>;
  readonly startedAt: number;
  /** Orders the callers. Lower numbers come first. */
  readonly arrival: number;
  readonly clock: Clock;
  /** Returns the caller's nested hold. Called when no other use runs, before any other code can run. */
  enter(): Lock;
}

/** A caller in a lock scope that waits until the other uses of a lock that the scope keeps have ended. */
export class UseWaiter implements GrantWaiter {
  readonly arrival: number;
  private resolve!: (lock: Lock | undefined) => void;
  private reject!: (reason: unknown) => void;
  private timer: Timer | undefined;
  private subscription: AbortSubscription | undefined;

  constructor(
    private readonly grant: Grant,
    private readonly request: UseRequest,
  ) {
    this.arrival = request.arrival;
  }

  /**
   * Waits for a nested hold.
   *
   * @returns undefined if the caller must look for the lock again: it was lost, or a scope that kept it has ended.
   * @throws LockTimeoutError if `waitMs` is over, and the reason of the caller's signal.
   */
  async wait(): Promise<Lock | undefined> {
    const { options, startedAt, clock } = this.request;
    const entered = new Promise<Lock | undefined>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // It may be rejected before anyone awaits it.
    entered.catch(() => undefined);
    // The signal's own code runs here, and may end a use or abort.
    this.subscription = onAbort(options.signal, (reason) => this.leave(() => this.reject(reason)));
    try {
      throwIfAborted(options.signal);
      const remainingMs = startedAt + options.waitMs - clock.now();
      if (remainingMs <= 0) throw this.timeout();
      this.grant.wait(this);
      if (remainingMs < Infinity) this.timer = clock.schedule(remainingMs, () => this.onTimeout());
      return await entered;
    } finally {
      this.stop();
    }
  }

  enter(): void {
    let lock: Lock | undefined;
    try {
      lock = this.request.enter();
    } catch (error) {
      // A lock that turns out to be lost is requested again.
      if (this.grant.state === 'held') this.reject(error);
    }
    this.stop();
    this.resolve(lock);
  }

  startOver(): void {
    this.stop();
    this.resolve(undefined);
  }

  private onTimeout(): void {
    this.leave(() => this.reject(this.timeout()));
  }

  private timeout(): Error {
    const { options, startedAt, clock } = this.request;
    return usedInScope(this.grant.resource, options.waitMs, clock.now() - startedAt);
  }

  private leave(settle: () => void): void {
    this.grant.stopWaiting(this);
    this.stop();
    settle();
  }

  private stop(): void {
    this.timer?.cancel();
    this.subscription?.stop();
  }
}
