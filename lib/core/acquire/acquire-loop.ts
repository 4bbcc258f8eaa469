import { Attempt, handoffLease, pauseAfterSilence, startOf } from './attempt.js';
import type { AcquireLoopState } from './acquire-loop-state.js';
import type { AcquireLoopDeps, AcquireLoopOwner } from './acquire-loop-deps.js';
import { LockUnavailableError } from '../errors.js';
import { deadlineOf, type StoreGrant } from '../lease/grant.js';
import type { AcquireReply, GrantedTokens, Handoff, Held } from '../store/lock-store.js';
import { failedBecause, heldUntil, otherPermits, type LastReply, unavailable } from './acquire-errors.js';

/**
 * Asks the store for one key, for all who wait for it in one module instance, until the key is granted or nobody wants it
 * any more. Where the store has a queue it waits there, to be handed the lock, and asks again now and then only in case that
 * something got lost; otherwise it asks again and again, with jittered pauses.
 *
 * An ask whose answer nobody waits for may still run. So a release goes behind it, the next ask has another owner, and at
 * most one given-up ask is unanswered at a time.
 */
export class AcquireLoop {
  private state: AcquireLoopState = { kind: 'idle' };
  private unanswered: Attempt | undefined;

  constructor(
    private readonly principal: AcquireLoopOwner,
    private readonly tools: AcquireLoopDeps,
  ) {}

  /** Whether nothing is under way or unanswered. */
  get settled(): boolean {
    return this.state.kind === 'idle' && this.unanswered === undefined;
  }

  /** How long the next answer may take; 0 if none is waited for. */
  get replyDueMs(): number {
    if (this.state.kind === 'requesting') return Infinity;
    return this.state.kind === 'blocked' ? this.tools.requestTimeoutMs : 0;
  }

  /** Begins to ask. */
  start(): void {
    if (this.unanswered?.grantedAhead === false) this.state = { kind: 'blocked' };
    else this.send(new Attempt(this.tools.nextOwner(this.principal)));
  }

  /** Nobody wants the key any more. */
  stop(): void {
    const { state } = this;
    if ('timer' in state) state.timer.cancel();
    if (state.kind === 'requesting') this.unanswered = state.ask;
    if (state.kind === 'requesting' || (state.kind === 'waiting' && state.ask.standing)) this.releaseBehind(state.ask);
    this.state = { kind: 'idle' };
  }

  /** Somebody has come who would wait in the queue: so far nobody would. */
  onWaiterAdded(): void {
    if (this.state.kind === 'waiting' && this.wantsQueue && !this.state.ask.forQueue) this.sendAgain(this.state.ask);
  }

  /** The store has handed the lock over, to an ask of ours if its owner is current. */
  onHandoff(handoff: Handoff): void {
    const { state } = this;
    const now = this.tools.clock.now();
    if (!('ask' in state) || state.ask.owner !== handoff.owner) return this.releaseBehind(handoff);
    const { ask } = state;
    const startedAt = startOf(handoff, now);
    if (startedAt !== undefined) {
      if (state.kind === 'requesting') {
        ask.grantedAhead = this.unanswered === undefined;
        this.unanswered = ask;
      }
      return this.granted({ ...handoff, sentAt: startedAt }, now);
    }
    // Too old to be believed in, or of unknown age: the same owner asks whether the lock is its own still.
    ask.handedBlindly = true;
    if (state.kind === 'waiting') this.sendAgain(ask);
  }

  /** Does not wait for the next time to ask. */
  retryNow(): void {
    if (this.state.kind === 'waiting') this.sendAgain(this.state.ask);
  }

  /** A connection ended: what was asked over it may never be answered. */
  onDisconnected(): void {
    if (this.state.kind === 'requesting')
      this.giveUp(this.state.ask, this.unavailable('the connection ended before the answer'));
    if (this.unanswered !== undefined) this.settle();
  }

  private send(ask: Attempt): void {
    const { store, clock, requestTimeoutMs } = this.tools;
    ask.sentAt = clock.now();
    ask.leaseMs = this.principal.leaseMs;
    ask.forQueue = this.wantsQueue;
    ask.handedBlindly = false;
    const expiresAt = ask.sentAt + requestTimeoutMs;
    const answer = store.acquire({
      keys: [this.principal.key],
      owner: ask.owner,
      mode: this.principal.mode,
      leaseMs: ask.leaseMs,
      queue: ask.forQueue,
      handoffMs: handoffLease(ask.leaseMs),
      tokens: this.principal.tokens,
      expiresAt,
    });
    // Started behind the ask, so that a store which gives up at `expiresAt` by itself is heard first.
    this.state = { kind: 'requesting', ask, timer: clock.schedule(requestTimeoutMs, () => this.onTimeout(ask), true) };
    answer.then(
      (reply) => this.onAcquireReply(ask, reply),
      (error: unknown) => this.onFailure(ask, error),
    );
  }

  private onAcquireReply(ask: Attempt, reply: AcquireReply): void {
    if (this.state.kind !== 'requesting' || this.state.ask !== ask) return this.onLateReply(ask, reply);
    this.state.timer.cancel();
    if (reply.status !== 'expired') this.tools.health.answered(this.principal.key);
    if (reply.status === 'granted') return this.grantedByReply(ask, reply);
    if (reply.status === 'held') return this.refused(ask, reply);
    if (reply.status === 'permits-mismatch')
      return this.wait(ask, ask.backoff(this.tools.clock), otherPermits(reply), 0);
    const failure = this.unavailable('the request could not be delivered in time');
    this.wait(ask, ask.backoff(this.tools.clock), failedBecause(failure));
  }

  private grantedByReply(ask: Attempt, { token, tokens }: GrantedTokens): void {
    const { owner, sentAt, leaseMs } = ask;
    const now = this.tools.clock.now();
    if (now < deadlineOf(sentAt, leaseMs)) return this.granted({ owner, sentAt, leaseMs, token, tokens }, now);
    ask.standing = true;
    // Asked again, the same owner gets a full lease, if nobody else has the key by now.
    const failure = this.unavailable(`the answer took longer than the lease of ${leaseMs} ms`);
    if (this.tools.store.capabilities.idempotentAcquire) this.wait(ask, 0, failedBecause(failure));
    else this.giveUp(ask, failure);
  }

  private granted(grant: StoreGrant, now: number): void {
    if ('timer' in this.state) this.state.timer.cancel();
    this.state = { kind: 'idle' };
    this.principal.granted(grant, now);
  }

  private refused(ask: Attempt, reply: Held): void {
    const { clock, store } = this.tools;
    ask.standing ||= reply.queued;
    const until = reply.remainingMs === undefined ? undefined : clock.now() + reply.remainingMs;
    const { retry } = store.capabilities;
    this.wait(ask, ask.pauseAfter(reply, clock, retry), heldUntil(until), retry?.limit);
    // What has come up since it was asked counts only if somebody is still waiting.
    if (this.state.kind !== 'waiting') return;
    if (ask.handedBlindly || (this.wantsQueue && !ask.forQueue)) this.sendAgain(ask);
  }

  /** Nobody waits for this answer any more; what was given is given back, wherever the release behind it may have run. */
  private onLateReply(ask: Attempt, reply: AcquireReply): void {
    const stands = reply.status === 'granted' || (reply.status === 'held' && reply.queued);
    if (stands && !this.principal.holds(ask.owner)) this.releaseBehind(ask);
    if (this.unanswered === ask) this.settle();
  }

  private onFailure(ask: Attempt, error: unknown): void {
    if (this.unanswered === ask) return this.settle();
    if (this.state.kind !== 'requesting' || this.state.ask !== ask) return;
    const known = error instanceof LockUnavailableError;
    this.giveUp(ask, known ? error : this.unavailable('the store failed', error));
  }

  private onTimeout(ask: Attempt): void {
    const { health, requestTimeoutMs } = this.tools;
    this.unanswered = ask;
    const why = `no answer within ${requestTimeoutMs} ms`;
    health.silent(this.principal.key, why);
    this.giveUp(ask, this.unavailable(why));
  }

  private giveUp(ask: Attempt, error: LockUnavailableError): void {
    const { clock } = this.tools;
    if (this.state.kind === 'requesting') this.state.timer.cancel();
    this.releaseBehind(ask);
    this.state = { kind: 'recovering', timer: clock.schedule(pauseAfterSilence(clock), () => this.start()) };
    this.principal.onReply(failedBecause(error), error.permanent ? 0 : Infinity);
  }

  private settle(): void {
    this.unanswered = undefined;
    if (this.state.kind === 'blocked') this.start();
    else if (this.settled) this.principal.settled();
  }

  private wait(ask: Attempt, pauseMs: number, word: LastReply, limit = Infinity): void {
    this.state = { kind: 'waiting', ask, timer: this.tools.clock.schedule(pauseMs, () => this.send(ask)) };
    this.principal.onReply(word, limit);
  }

  private sendAgain(ask: Attempt): void {
    if (this.state.kind === 'waiting') this.state.timer.cancel();
    this.send(ask);
  }

  private get wantsQueue(): boolean {
    return this.tools.store.capabilities.queue && this.principal.willWait;
  }

  private releaseBehind({ owner, leaseMs }: Pick<Attempt, 'owner' | 'leaseMs'>): void {
    const { resource, key, mode } = this.principal;
    this.tools.releaser.releaseBehind({ resource, key, owner, mode, leaseMs, keepUntil: 0 });
  }

  private unavailable(why: string, cause?: unknown): LockUnavailableError {
    const { resource, key } = this.principal;
    return unavailable(resource, why, { cause: cause ?? this.tools.health.outageOf(key) });
  }
}
