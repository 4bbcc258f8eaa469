import { handoffLease } from './attempt.js';
import type { Timer } from '../time/clock.js';
import type { AcquireLoopDeps } from './acquire-loop-deps.js';
import type { Target } from './acquire-options.js';
import { LockUnavailableError } from '../errors.js';
import { deadlineOf, type Grant, type StoreGrant } from '../lease/grant.js';
import type { AcquireReply } from '../store/lock-store.js';
import { failedBecause, heldUntil, type LastReply, otherPermits, unavailable } from './acquire-errors.js';
import { type WaitOptions, leaseOf } from './waiters.js';

/** Why several locks could not be had at once, and which of them it was. */
export interface Obstacle {
  readonly target: Target;
  readonly reply: LastReply;
}

/** Makes grants of what the store has given. */
type Adopt = (given: StoreGrant, now: number) => readonly Grant[];

/**
 * One ask for several keys under one hash tag: all are granted, or none. It is made once, and waits for nobody. An ask without
 * an answer may still run: so releases go behind it, and behind a late answer.
 */
export class MultiAcquire {
  private readonly owner: string;
  private readonly leaseMs: number;
  private sentAt = 0;
  private timer: Timer | undefined;
  private resolve!: (outcome: readonly Grant[] | Obstacle) => void;
  private reject!: (reason: unknown) => void;
  private over = false;

  constructor(
    private readonly targets: readonly Target[],
    private readonly terms: WaitOptions,
    readonly nested: boolean,
    private readonly tools: AcquireLoopDeps,
    private readonly adopt: Adopt,
  ) {
    this.owner = tools.nextOwner();
    this.leaseMs = leaseOf(terms);
  }

  /** Sends it. Answers the grants, or what stood in the way; rejects with the signal's reason, and as {@link refuse} says. */
  async send(): Promise<readonly Grant[] | Obstacle> {
    const { signal } = this.terms;
    const leave = (): void => this.refuse(signal?.reason);
    const outcome = new Promise<readonly Grant[] | Obstacle>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    signal?.addEventListener('abort', leave, { once: true });
    try {
      this.ask();
      return await outcome;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  /** Nobody wants the locks any more. */
  refuse(reason: unknown): void {
    if (!this.end()) return;
    this.giveBack();
    this.reject(reason);
  }

  /** A connection ended: what was asked over it may never be answered. */
  disconnected(): void {
    this.giveUp('the connection ended before the answer');
  }

  get key(): string {
    return this.targets[0].key;
  }

  get resource(): string {
    return this.targets[0].resource;
  }

  private ask(): void {
    const { store, clock, requestTimeoutMs } = this.tools;
    const { owner, leaseMs } = this;
    this.sentAt = clock.now();
    const answer = store.acquire({
      keys: this.targets.map(({ key }) => key),
      owner,
      mode: this.terms.mode,
      leaseMs,
      queue: false,
      handoffMs: handoffLease(leaseMs),
      tokens: 1,
      expiresAt: this.sentAt + requestTimeoutMs,
    });
    this.timer = clock.schedule(requestTimeoutMs, () => this.timedOut(), true);
    answer.then(
      (reply) => this.answered(reply),
      (error: unknown) => this.failed(error),
    );
  }

  private answered(reply: AcquireReply): void {
    if (this.over) {
      if (reply.status === 'granted') this.giveBack();
      return;
    }
    if (reply.status === 'expired') return this.expired();
    this.tools.health.answered(this.key);
    const { sentAt, leaseMs, owner } = this;
    const now = this.tools.clock.now();
    if (reply.status === 'granted') {
      if (now >= deadlineOf(sentAt, leaseMs))
        return this.giveUp(`the answer took longer than the lease of ${leaseMs} ms`);
      this.end();
      return this.resolve(this.adopt({ ...reply, owner, sentAt, leaseMs }, now));
    }
    this.end();
    const target = this.targets.find(({ key }) => key === reply.key) ?? this.targets[0];
    if (reply.status === 'permits-mismatch') return this.resolve({ target, reply: otherPermits(reply) });
    const until = reply.remainingMs === undefined ? undefined : now + reply.remainingMs;
    this.resolve({ target, reply: heldUntil(until) });
  }

  /** It did nothing: there is nothing to give back. */
  private expired(): void {
    this.end();
    this.resolve({
      target: this.targets[0],
      reply: failedBecause(this.unavailable('the request could not be delivered in time')),
    });
  }

  private failed(error: unknown): void {
    if (error instanceof LockUnavailableError) this.fail(error);
    else this.giveUp('the store failed', error);
  }

  private timedOut(): void {
    const why = `no answer within ${this.tools.requestTimeoutMs} ms`;
    this.tools.health.silent(this.key, why);
    this.giveUp(why);
  }

  private giveUp(why: string, cause?: unknown): void {
    this.fail(this.unavailable(why, cause));
  }

  private unavailable(why: string, cause: unknown = this.tools.health.outageOf(this.key)): LockUnavailableError {
    return unavailable(this.resource, why, { cause });
  }

  private fail(error: LockUnavailableError): void {
    if (!this.end()) return;
    this.giveBack();
    this.resolve({ target: this.targets[0], reply: failedBecause(error) });
  }

  /** False if it has ended already. */
  private end(): boolean {
    if (this.over) return false;
    this.over = true;
    this.timer?.cancel();
    return true;
  }

  private giveBack(): void {
    const { owner, leaseMs } = this;
    const { mode } = this.terms;
    for (const { resource, key } of this.targets) {
      this.tools.releaser.releaseBehind({ resource, key, owner, mode, leaseMs, keepUntil: 0 });
    }
  }
}
