import type { Lock } from '../hold/lock.js';
import type { Grant, GrantWaiter } from '../lease/grant.js';
import type { Clock } from '../time/clock.js';
import { usedInScope } from './acquire-errors.js';
import type { WaitOptions } from './acquire-options.js';
import { PendingCall } from './pending-call.js';

/** A request from a caller in a lock scope for a lock that the scope keeps while another caller uses it. */
export interface UseRequest {
  readonly options: Pick<WaitOptions, 'waitMs' | 'signal'>;
  readonly startedAt: number;
  /** Orders the callers. Lower numbers come first. */
  readonly arrival: number;
  /** Returns the caller's nested hold. Called when no other use runs, before any other code can run. */
  enter(): Lock;
}

/** A caller in a lock scope that waits until the other uses of a lock that the scope keeps have ended. */
export class UseWaiter extends PendingCall<Lock | undefined> implements GrantWaiter {
  readonly arrival: number;

  constructor(
    private readonly grant: Grant,
    private readonly request: UseRequest,
    clock: Clock,
  ) {
    super(clock);
    this.arrival = request.arrival;
  }

  /**
   * Waits for a nested hold.
   *
   * @returns undefined if the caller must look for the lock again, because it was lost or its scope has ended.
   * @throws LockTimeoutError if `waitMs` has elapsed, or the signal's reason if it aborts.
   */
  wait(): Promise<Lock | undefined> {
    const { options, startedAt } = this.request;
    const [now, until] = [this.clock.now(), startedAt + options.waitMs];
    try {
      // The signal's own code runs here, and may end a use.
      this.listen(options.signal, (reason) => this.leave(reason));
      if (until <= now) throw this.timeout();
      this.wakeAt(until, now, () => this.leave(this.timeout()));
      this.grant.wait(this);
    } catch (reason) {
      this.refuse(reason);
    }
    return this.result;
  }

  enter(): void {
    try {
      this.resolve(this.request.enter());
    } catch (error) {
      // A lock that turns out to be lost is requested again.
      if (this.grant.state === 'held') this.refuse(error);
      else this.startOver();
    }
  }

  startOver(): void {
    this.resolve(undefined);
  }

  private leave(reason: unknown): void {
    this.grant.stopWaiting(this);
    this.refuse(reason);
  }

  private timeout(): Error {
    const { options, startedAt } = this.request;
    return usedInScope(this.grant.resource, options.waitMs, this.clock.now() - startedAt);
  }
}
