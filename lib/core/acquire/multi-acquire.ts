import { onAbort } from '../context/abort-signals.js';
import type { LockUnavailableError } from '../errors.js';
import type { Target } from '../events/call.js';
import type { Grant } from '../lease/grant.js';
import type { StoreGrant } from '../lease/lease.js';
import type { AcquireReply } from '../store/lock-store.js';
import { failedBecause, type LastReply, outageError } from './acquire-errors.js';
import { type AcquireDeps, leaseOf, outageFor, type WaitingCaller, type WaitOptions } from './acquire-options.js';
import { Attempt, type AttemptListener } from './attempt.js';

/** Why several locks could not be acquired together, and the first lock that could not. */
export interface Obstacle {
  readonly target: Target;
  readonly reply: LastReply;
}

/**
 * One request for several keys under one hash tag, which grants all of them or none. It is sent once and does not wait
 * for other holders. If it is given up, it may still run. So releases follow the request and any late reply.
 */
export class MultiAcquire implements AttemptListener {
  private readonly attempt: Attempt;
  private resolve!: (outcome: readonly Grant[] | Obstacle) => void;
  private reject!: (reason: unknown) => void;

  /**
   * @param caller `nested`: whether it runs in a hold of this engine. `enteredAt`: the local moment of its call.
   * @param adopt makes grants from what the store has granted.
   */
  constructor(
    private readonly targets: readonly Target[],
    private readonly options: WaitOptions,
    readonly caller: { readonly nested: boolean; readonly enteredAt: number },
    private readonly deps: AcquireDeps,
    private readonly adopt: (given: StoreGrant, now: number) => readonly Grant[],
  ) {
    const keys = targets.map(({ key }) => key);
    this.attempt = new Attempt(deps.nextOwner(), keys, options.mode, deps, this);
  }

  /** The first of the keys. All are on the same server. */
  get key(): string {
    return this.targets[0].key;
  }

  /** The resource that errors name. */
  get resource(): string {
    return this.targets[0].resource;
  }

  /**
   * Sends the request. Returns the grants or the obstacle. Rejects with the signal's reason, or with the reason passed
   * to {@link refuse}.
   */
  async send(): Promise<readonly Grant[] | Obstacle> {
    const outcome = new Promise<readonly Grant[] | Obstacle>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    const subscription = onAbort(this.options.signal, (reason) => this.refuse(reason));
    try {
      const isSent = this.attempt.send({ leaseMs: leaseOf(this.options), tokens: 1 }, false);
      // The caller then requests the locks one after the other, and each request waits for its turn.
      if (!isSent) this.resolve({ target: this.targets[0], reply: this.attempt.crowdedOut() });
      return await outcome;
    } finally {
      subscription.stop();
    }
  }

  /** Yields the caller, once for each lock. */
  *waiting(): Generator<WaitingCaller> {
    const { options, caller } = this;
    for (const { resource, key, call } of this.targets)
      yield { resource, key, call, options, enteredAt: caller.enteredAt };
  }

  /** Gives up the request and rejects with `reason`. */
  refuse(reason: unknown): void {
    if (!this.attempt.isPending) return;
    this.attempt.ignoreReply();
    this.attempt.releaseBehind();
    this.reject(reason);
  }

  /** Gives up the request, because its reply may be lost with the connection. */
  onDisconnected(): void {
    this.attempt.onDisconnected();
  }

  onAcquireReply(attempt: Attempt, reply: AcquireReply): void {
    if (reply.status === 'granted') {
      const now = this.deps.clock.now();
      const grant = attempt.grantOf(reply, now);
      return grant === undefined ? this.fail(attempt, attempt.tooLate(), now) : this.resolve(this.adopt(grant, now));
    }
    const key = 'key' in reply ? reply.key : undefined;
    const target = this.targets.find((one) => one.key === key) ?? this.targets[0];
    this.resolve({ target, reply: attempt.lastReplyOf(reply) });
  }

  onFailure(attempt: Attempt, error: LockUnavailableError): void {
    this.fail(attempt, error, attempt.sentAt);
  }

  onTimeout(attempt: Attempt, error: LockUnavailableError): void {
    this.onFailure(attempt, error);
  }

  /** Gives up the request if it is still on its way and its caller no longer waits for the end of an outage. */
  refuseIfUnavailable(): void {
    const { options, resource, caller } = this;
    const outage = outageFor(this.deps.health, this.key, options);
    if (outage !== undefined) this.refuse(outageError(resource, outage, this.deps.clock.now() - caller.enteredAt));
  }

  onLateReply(attempt: Attempt, reply?: AcquireReply): void {
    // The releases that followed the request may have run before the request.
    if (reply?.status === 'granted') attempt.releaseBehind();
  }

  /** @param since the time from which requests have failed. */
  private fail(attempt: Attempt, error: LockUnavailableError, since: number): void {
    attempt.releaseBehind(true);
    this.resolve({ target: this.targets[0], reply: failedBecause(error, since) });
  }
}
