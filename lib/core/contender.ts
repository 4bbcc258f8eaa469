import type { Clock, Timer } from './clock.js';
import { LockUnavailableError } from './errors.js';
import { deadlineOf } from './grant.js';
import type { AskReply, LockStore } from './lock-store.js';
import { failedBecause, heldUntil, type LastWord, unavailable } from './refusal.js';
import type { Releaser } from './releaser.js';

/** What a contender asks with. */
export interface ContenderTools {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly releaser: Releaser;
  readonly requestTimeoutMs: number;
  /** Why the store cannot be reached; undefined while it can, as far as is known. */
  readonly outage: Error | undefined;
  nextOwner(): string;
  /** The store has answered, whatever it was. */
  reachable(): void;
  /** The store has not answered in time. */
  silent(): void;
}

/** For whom a contender asks. */
export interface Principal {
  readonly resource: string;
  readonly key: string;
  /** The lease that is wanted now. */
  leaseMs(): number;
  granted(ask: Ask, token: number | undefined): void;
  /** The store has refused, or has not been heard. The contender goes on by itself until it is stopped. */
  heard(word: LastWord): void;
  /** Nothing that was asked is unanswered any more. */
  settled(): void;
}

/** One try to get the key; repeated with the same owner until it is granted or given up. */
export interface Ask {
  readonly owner: string;
  /** What whoever was first in line wanted when it was sent last. */
  leaseMs: number;
  /** When it was sent last: leases are counted from before the request left. */
  sentAt: number;
  refusals: number;
}

type State =
  | { readonly kind: 'idle' }
  /** The last ask was given up and is not answered yet: the next one has to wait for that. */
  | { readonly kind: 'blocked' }
  | { readonly kind: 'asking'; readonly ask: Ask; readonly timer: Timer }
  /** Refused: asks again when the timer fires; with another ask, if the last one was given up. */
  | { readonly kind: 'pausing'; readonly timer: Timer; readonly granted?: Ask };

const IDLE: State = { kind: 'idle' };
const BLOCKED: State = { kind: 'blocked' };

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;

/**
 * Asks the store for one key, for all who wait for it in one module instance: again and again, with jittered pauses, until
 * the key is granted or nobody wants it any more.
 *
 * An ask whose answer nobody waits for may still run. So a release goes behind it, the next ask has another owner, and at
 * most one given-up ask is unanswered at a time.
 */
export class Contender {
  private state: State = IDLE;
  private unanswered: Ask | undefined;

  constructor(
    private readonly principal: Principal,
    private readonly tools: ContenderTools,
  ) {}

  /** Whether nothing is under way or unanswered. */
  get settled(): boolean {
    return this.state.kind === 'idle' && this.unanswered === undefined;
  }

  /** How long the next answer may take; 0 if none is waited for. */
  get answerDueMs(): number {
    if (this.state.kind === 'asking') return Infinity;
    return this.state.kind === 'blocked' ? this.tools.requestTimeoutMs : 0;
  }

  /** Begins to ask. */
  start(): void {
    if (this.unanswered !== undefined) this.state = BLOCKED;
    else this.send({ owner: this.tools.nextOwner(), leaseMs: 0, sentAt: 0, refusals: 0 });
  }

  /** Nobody wants the key any more. */
  stop(): void {
    const { state } = this;
    if (state.kind === 'asking') {
      this.unanswered = state.ask;
      this.releaseBehind(state.ask);
    }
    if (state.kind === 'pausing' && state.granted !== undefined) this.releaseBehind(state.granted);
    if (state.kind === 'asking' || state.kind === 'pausing') state.timer.cancel();
    this.state = IDLE;
  }

  /** A connection ended: what was asked over it may never be answered. */
  disconnected(): void {
    if (this.state.kind === 'asking')
      this.giveUp(this.state.ask, this.unavailable('the connection ended before the answer'));
    if (this.unanswered !== undefined) this.settle();
  }

  private send(ask: Ask): void {
    const { store, clock, requestTimeoutMs } = this.tools;
    ask.sentAt = clock.now();
    ask.leaseMs = this.principal.leaseMs();
    const { owner, leaseMs } = ask;
    const expiresAt = ask.sentAt + requestTimeoutMs;
    const keys = [this.principal.key];
    const answer = store.ask({ keys, owner, mode: 'exclusive', leaseMs, queue: false, expiresAt });
    // Started behind the ask, so that a store which gives up at `expiresAt` by itself is heard first.
    this.state = { kind: 'asking', ask, timer: clock.schedule(requestTimeoutMs, () => this.timedOut(ask)) };
    answer.then(
      (reply) => this.answered(ask, reply),
      (error: unknown) => this.failed(ask, error),
    );
  }

  private answered(ask: Ask, reply: AskReply): void {
    if (this.state.kind !== 'asking' || this.state.ask !== ask) return this.answeredLate(ask, reply);
    this.state.timer.cancel();
    if (reply.status !== 'expired') this.tools.reachable();
    if (reply.status === 'granted') return this.granted(ask, reply.token);
    if (reply.status === 'held') return this.refused(ask, reply.remainingMs);
    const failure = this.unavailable('the request could not be delivered in time');
    this.pause(this.backoff(ask), failedBecause(failure), ask);
  }

  private granted(ask: Ask, token: number | undefined): void {
    if (this.tools.clock.now() < deadlineOf(ask.sentAt, ask.leaseMs)) {
      this.state = IDLE;
      return this.principal.granted(ask, token);
    }
    // Asked again, the same owner gets a full lease, if nobody else has the key by now.
    const failure = this.unavailable(`the answer took longer than the lease of ${ask.leaseMs} ms`);
    this.pause(0, failedBecause(failure), ask, ask);
  }

  private refused(ask: Ask, remainingMs: number | undefined): void {
    const until = remainingMs === undefined ? undefined : this.tools.clock.now() + remainingMs;
    this.pause(Math.min(this.backoff(ask), (remainingMs ?? Infinity) + 1), heldUntil(until), ask);
  }

  /** Nobody waits for this ask any more; what it was given is given back, wherever the release behind it may be. */
  private answeredLate(ask: Ask, reply: AskReply): void {
    if (reply.status === 'granted') this.releaseBehind(ask);
    if (this.unanswered === ask) this.settle();
  }

  private failed(ask: Ask, error: unknown): void {
    if (this.unanswered === ask) return this.settle();
    if (this.state.kind !== 'asking' || this.state.ask !== ask) return;
    const known = error instanceof LockUnavailableError;
    this.giveUp(ask, known ? error : this.unavailable('the store failed', error));
  }

  private timedOut(ask: Ask): void {
    this.unanswered = ask;
    this.tools.silent();
    this.giveUp(ask, this.unavailable(`no answer within ${this.tools.requestTimeoutMs} ms`));
  }

  private giveUp(ask: Ask, error: LockUnavailableError): void {
    if (this.state.kind === 'asking') this.state.timer.cancel();
    this.releaseBehind(ask);
    this.pause(this.jittered(LONGEST_PAUSE_MS), failedBecause(error));
  }

  private settle(): void {
    this.unanswered = undefined;
    if (this.state.kind === 'blocked') this.start();
    else if (this.settled) this.principal.settled();
  }

  /** @param granted what the store may have given still, too late to be believed in. */
  private pause(delayMs: number, word: LastWord, ask?: Ask, granted?: Ask): void {
    const again = (): void => (ask === undefined ? this.start() : this.send(ask));
    this.state = { kind: 'pausing', timer: this.tools.clock.schedule(delayMs, again), granted };
    this.principal.heard(word);
  }

  private backoff(ask: Ask): number {
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** ask.refusals);
    ask.refusals += 1;
    return this.jittered(pauseMs);
  }

  /** So that contenders do not ask in step. */
  private jittered(pauseMs: number): number {
    return pauseMs * (0.5 + this.tools.clock.random() / 2);
  }

  private releaseBehind({ owner, sentAt, leaseMs }: Ask): void {
    const { resource, key } = this.principal;
    // It may run as late as it is still valid.
    const leaseOverAt = sentAt + this.tools.requestTimeoutMs + leaseMs;
    this.tools.releaser.releaseBehind({ resource, key, owner, leaseOverAt, keepUntil: 0 });
  }

  private unavailable(why: string, cause: unknown = this.tools.outage): LockUnavailableError {
    return unavailable(this.principal.resource, why, { cause });
  }
}
