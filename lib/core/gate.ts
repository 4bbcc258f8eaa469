import type { Clock, Timer } from './clock.js';
import { driftOf } from './clock.js';
import { type LockError, LockUnavailableError } from './errors.js';
import { deadlineOf, Grant } from './grant.js';
import type { AskReply, LockStore } from './lock-store.js';
import { closed, type LastWord, refusal, unavailable } from './refusal.js';
import type { Release, Releaser } from './releaser.js';
import { type AcquireTerms, Waiter, WaitingLine } from './waiter.js';

/** What a gate needs of its engine. */
export interface GateKeeper {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly releaser: Releaser;
  readonly requestTimeoutMs: number;
  nextOwner(): string;
  granted(grant: Grant): void;
  /** The gate has nothing left to remember. */
  forget(gate: Gate): void;
}

/** One try to get the key; repeated with the same owner until it is granted or given up. */
interface Ask {
  readonly owner: string;
  readonly leaseMs: number;
  sentAt: number;
  refusals: number;
}

/** What the gate is doing; each state carries only its own data. */
type State =
  | { readonly kind: 'empty' }
  /** The last ask was given up and is not answered yet: the next one has to wait for that. */
  | { readonly kind: 'blocked' }
  | { readonly kind: 'asking'; readonly ask: Ask; readonly timer: Timer }
  /** Refused, or unanswered (then without an ask): asks again when the timer fires. */
  | { readonly kind: 'pausing'; readonly ask: Ask | undefined; readonly timer: Timer }
  | { readonly kind: 'holding'; readonly grant: Grant }
  /** The hold has ended before its `minHoldMs`. */
  | { readonly kind: 'resting'; readonly grant: Grant; readonly timer: Timer };

const EMPTY: State = { kind: 'empty' };
const BLOCKED: State = { kind: 'blocked' };
const SILENT: LastWord = { kind: 'none' };

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;

/**
 * Stands before one key of one module instance. Local callers wait in it, first in first out, and only the head's ask is
 * sent to the store: the store sees one contender per instance, however many callers wait.
 */
export class Gate {
  private state: State = EMPTY;
  private readonly line = new WaitingLine();
  private lastWord: LastWord = SILENT;
  /** A given-up ask that is still to be answered; at most one. */
  private unanswered: Ask | undefined;

  constructor(
    readonly resource: string,
    readonly key: string,
    private readonly keeper: GateKeeper,
  ) {}

  /** Waits for the lock. Rejects with `LockTimeoutError`, `LockUnavailableError`, or the signal's reason. */
  enter(terms: AcquireTerms): Promise<Grant> {
    const waiter = new Waiter(terms, this.keeper.clock);
    this.line.push(waiter);
    waiter.onAbort((reason) => this.refuse(waiter, reason));
    if (this.state.kind === 'empty') this.askOrBlock();
    else this.startTimer(waiter);
    return waiter.granted;
  }

  /** Ends a grant, in good order or lost, and turns to the next waiter. Answers the store's word. */
  end(grant: Grant): Promise<boolean> {
    if (this.state.kind !== 'holding' || this.state.grant !== grant) return Promise.resolve(false);
    const { clock } = this.keeper;
    const keepUntil = grant.state === 'lost' ? 0 : grant.minHoldUntil;
    const restMs = keepUntil - clock.now();
    const released = this.keeper.releaser.release(this.releaseOf(grant.owner, grant.deadline, keepUntil));
    if (restMs > 0) {
      this.state = { kind: 'resting', grant, timer: clock.schedule(restMs, () => this.rested(grant), true) };
    } else {
      this.turnToNext();
    }
    return released;
  }

  /** A connection ended: what was asked over it may never be answered. */
  disconnected(): void {
    if (this.state.kind === 'asking') {
      const { ask } = this.state;
      this.giveUp(ask, unavailable(this.resource, 'the connection ended before the answer came'));
    }
    this.settle();
  }

  /** Refuses everybody who does not wait inside a hold of this instance. */
  refuseOutsiders(): void {
    for (const waiter of this.line) if (!waiter.terms.nested) this.refuse(waiter, closed(this.resource));
  }

  /** Stops for good: nobody waits any more, no timer is left. */
  close(): void {
    for (const waiter of this.line) this.refuse(waiter, closed(this.resource));
    if (this.state.kind === 'resting') this.state.timer.cancel();
  }

  private askOrBlock(): void {
    if (this.unanswered === undefined) return this.send(this.newAsk());
    this.state = BLOCKED;
    for (const waiter of this.line) this.startTimer(waiter);
  }

  private newAsk(): Ask {
    const { ttlMs, maxHoldMs } = (this.line.head as Waiter).terms;
    const leaseMs = Math.min(ttlMs, Math.ceil(maxHoldMs + driftOf(ttlMs)));
    return { owner: this.keeper.nextOwner(), leaseMs, sentAt: 0, refusals: 0 };
  }

  private send(ask: Ask): void {
    const { store, clock, requestTimeoutMs } = this.keeper;
    ask.sentAt = clock.now();
    const timer = clock.schedule(requestTimeoutMs, () => {
      this.unanswered = ask;
      this.giveUp(ask, unavailable(this.resource, `no answer within ${requestTimeoutMs} ms`));
    });
    this.state = { kind: 'asking', ask, timer };
    const expiresAt = ask.sentAt + requestTimeoutMs;
    store
      .ask({ keys: [this.key], owner: ask.owner, mode: 'exclusive', leaseMs: ask.leaseMs, queue: false, expiresAt })
      .then(
        (reply) => this.answered(ask, reply),
        (error: unknown) => this.failed(ask, error),
      );
  }

  private answered(ask: Ask, reply: AskReply): void {
    if (this.state.kind !== 'asking' || this.state.ask !== ask) return this.answeredLate(ask, reply);
    this.state.timer.cancel();
    if (reply.status === 'granted') return this.admit(ask, reply.token);
    // An ask that expired on the way did nothing, and says nothing about the lock.
    if (reply.status === 'expired') return this.pause(ask, undefined);
    const { remainingMs } = reply;
    this.lastWord = heldUntil(remainingMs === undefined ? undefined : this.keeper.clock.now() + remainingMs);
    this.pause(ask, remainingMs);
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
    this.giveUp(ask, known ? error : unavailable(this.resource, 'the store failed', { cause: error }));
  }

  private admit(ask: Ask, token: number | undefined): void {
    const { clock } = this.keeper;
    const now = clock.now();
    if (now >= deadlineOf(ask.sentAt, ask.leaseMs)) {
      // Asked again, the same owner gets a full lease, if nobody else has the key by now.
      const why = `the answer took longer than the lease of ${ask.leaseMs} ms`;
      this.lastWord = { kind: 'failed', error: unavailable(this.resource, why) };
      return this.pause(ask, 0);
    }
    const waiter = this.line.head as Waiter;
    this.line.remove(waiter);
    const grant = new Grant(this.resource, this.key, ask.owner, token, waiter.terms, now, ask);
    this.state = { kind: 'holding', grant };
    this.lastWord = heldUntil(undefined);
    // Whoever stands behind has to wait for the holder now.
    for (const behind of this.line) this.startTimer(behind);
    this.keeper.granted(grant);
    waiter.admit(grant);
  }

  /** Refused: waits a little, with jitter so that contenders do not ask in step, but not beyond the life of the key. */
  private pause(ask: Ask, remainingMs: number | undefined): void {
    const { clock } = this.keeper;
    const backoff = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** ask.refusals) * (0.5 + clock.random() / 2);
    ask.refusals += 1;
    this.pauseFor(Math.min(backoff, (remainingMs ?? Infinity) + 1), ask);
  }

  private pauseFor(delayMs: number, ask: Ask | undefined): void {
    const again = (): void => (ask === undefined ? this.askOrBlock() : this.send(ask));
    this.state = { kind: 'pausing', ask, timer: this.keeper.clock.schedule(delayMs, again) };
    for (const waiter of this.line) this.startTimer(waiter);
  }

  /** Gives an ask up that may have had an effect: a release goes behind it, and the next ask is another one. */
  private giveUp(ask: Ask, error: LockUnavailableError): void {
    this.leaveAsk(ask);
    this.lastWord = { kind: 'failed', error };
    if (error.permanent) for (const waiter of this.line) this.refuse(waiter, this.refusalOf(waiter));
    if (this.line.head === undefined) return this.forgetIfIdle();
    this.pauseFor(LONGEST_PAUSE_MS * (0.5 + this.keeper.clock.random() / 2), undefined);
  }

  private leaveAsk(ask: Ask): void {
    if (this.state.kind === 'asking' || this.state.kind === 'pausing') this.state.timer.cancel();
    this.state = EMPTY;
    this.releaseBehind(ask);
  }

  /** The given-up ask is answered, or never will be. */
  private settle(): void {
    this.unanswered = undefined;
    if (this.state.kind === 'blocked') this.turnToNext();
    else this.forgetIfIdle();
  }

  private rested(grant: Grant): void {
    this.keeper.releaser.releaseBehind(this.releaseOf(grant.owner, grant.deadline));
    this.turnToNext();
  }

  private turnToNext(): void {
    this.state = EMPTY;
    if (this.line.head !== undefined) this.askOrBlock();
    else this.forgetIfIdle();
  }

  private forgetIfIdle(): void {
    if (this.state.kind === 'empty' && this.unanswered === undefined) this.keeper.forget(this);
  }

  private startTimer(waiter: Waiter): void {
    const delayMs = waiter.terms.waitMs === 0 ? this.answerDueMs() : waiter.patienceMs;
    if (delayMs <= 0) this.refuse(waiter, this.refusalOf(waiter));
    else waiter.startTimer(delayMs, () => this.refuse(waiter, this.refusalOf(waiter)));
  }

  /** Even who does not wait for others waits for the store's answer, to learn whether it is busy or unreachable. */
  private answerDueMs(): number {
    if (this.state.kind === 'asking') return Infinity;
    return this.state.kind === 'blocked' ? this.keeper.requestTimeoutMs : 0;
  }

  private refuse(waiter: Waiter, reason: unknown): void {
    if (!this.line.remove(waiter)) return;
    waiter.refuse(reason);
    if (this.line.head === undefined) this.leave();
  }

  /** The last waiter has left. */
  private leave(): void {
    const { state } = this;
    if (state.kind === 'asking') {
      this.unanswered = state.ask;
      this.leaveAsk(state.ask);
    } else if (state.kind === 'pausing' || state.kind === 'blocked') {
      if (state.kind === 'pausing') state.timer.cancel();
      this.state = EMPTY;
      this.forgetIfIdle();
    }
  }

  private releaseBehind(ask: Ask): void {
    this.keeper.releaser.releaseBehind(this.releaseOf(ask.owner, deadlineOf(ask.sentAt, ask.leaseMs)));
  }

  private releaseOf(owner: string, leaseOverAt: number, keepUntil = 0): Release {
    return { resource: this.resource, key: this.key, owner, leaseOverAt, keepUntil };
  }

  private refusalOf({ enteredAt, terms }: Waiter): LockError {
    const { resource, key, state } = this;
    const lastWord = state.kind === 'holding' ? heldUntil(state.grant.deadline) : this.lastWord;
    const now = this.keeper.clock.now();
    return refusal(lastWord, { resource, key, waitMs: terms.waitMs, enteredAt, now });
  }
}

function heldUntil(until: number | undefined): LastWord {
  return { kind: 'held', until };
}
