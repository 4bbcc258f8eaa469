import type { LockUnavailableError } from '../errors.js';
import type { StoreGrant } from '../lease/lease.js';
import type { AcquireReply } from '../store/lock-store.js';
import type { AcquireLoop } from './acquire-loop.js';
import type { AcquireDeps, Target, WaitOptions } from './acquire-options.js';
import { Attempt, type AttemptListener } from './attempt.js';
import { Waiter } from './waiters.js';

/** Where thin calls are found. */
export interface ThinCallUser {
  /** Called with the usual outcome. */
  onGranted(call: ThinCall, grant: StoreGrant, now: number): void;
  /** Makes a line of it, for any other outcome. Returns the loop that continues with its attempt. */
  inflate(call: ThinCall): AcquireLoop;
}

/**
 * The only caller of an exclusive lock, which sends the request itself. If that is granted in time, nothing else is
 * needed. Any other outcome makes a line of it, and happens there (thin locks of the JVM: Bacon et al., "Thin Locks",
 * PLDI 1998). It has no state of its own: while it is in use, its request is on its way.
 */
export class ThinCall extends Waiter implements AttemptListener {
  readonly attempt: Attempt;
  /** Nobody is here to whom the lock could be passed on. */
  readonly tokens = 1;

  constructor(
    target: Target,
    options: WaitOptions,
    enteredAt: number,
    nested: boolean,
    private readonly deps: AcquireDeps,
    private readonly user: ThinCallUser,
  ) {
    super(target.resource, options, enteredAt, nested, deps.clock, target.call);
    this.attempt = new Attempt(deps.nextOwner(), [target.key], 'exclusive', deps, this);
  }

  /** Sends the request. Returns false if too many requests of this process have no reply: it was not sent. */
  start(now: number): boolean {
    return this.attempt.send(this, this.options.waitMs > 0, now);
  }

  onAcquireReply(attempt: Attempt, reply: AcquireReply): void {
    if (reply.status === 'granted') {
      const now = this.deps.clock.now();
      const grant = attempt.grantOf(reply, now);
      if (grant !== undefined) return this.user.onGranted(this, grant, now);
    }
    this.user.inflate(this).onAcquireReply(attempt, reply);
  }

  onFailure(attempt: Attempt, error: LockUnavailableError): void {
    this.user.inflate(this).onFailure(attempt, error);
  }

  onTimeout(attempt: Attempt, error: LockUnavailableError): void {
    this.user.inflate(this).onTimeout(attempt, error);
  }

  /** Not called: only a loop gives a request up. */
  onLateReply(): void {}
}
