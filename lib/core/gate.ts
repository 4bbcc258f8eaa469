import { Contender } from './contender.js';
import type { ContenderTools, Principal } from './contender-terms.js';
import type { LockError } from './errors.js';
import { CONTENDING, EMPTY, type GateState } from './gate-state.js';
import { cutTo, Grant, type GrantGiver, type Lease, type StoreGrant } from './grant.js';
import type { HandOff, LockMode } from './lock-store.js';
import { closed, heldUntil, type LastWord, refusal, SILENT } from './refusal.js';
import type { Releaser } from './releaser.js';
import { type PassingLimits, Tenure } from './tenure.js';
import { type AcquireTerms, leaseOf, Waiter, WaitingLine } from './waiter.js';

/** What a gate needs of its engine. */
export interface GateKeeper extends ContenderTools {
  readonly releaser: Pick<Releaser, 'release' | 'releaseBehind'>;
  readonly passing: PassingLimits;
  granted(grant: Grant): void;
  /** The gate has nothing left to remember. */
  forget(gate: Gate): void;
}

/**
 * Stands before one key of one module instance. Local callers who want it alone wait in one, first in first out; the store
 * sees one contender of theirs per instance, however many callers wait. Each who shares it stands before a gate of its own.
 */
export class Gate implements Principal, GrantGiver {
  private state: GateState = EMPTY;
  private readonly line = new WaitingLine();
  private readonly contender: Contender;
  private lastWord: LastWord = SILENT;
  /** Whoever waits has a timer, but for those who do not wait for others. */
  private timed = false;

  constructor(
    readonly key: string,
    readonly mode: LockMode,
    private readonly keeper: GateKeeper,
  ) {
    this.contender = new Contender(this, keeper);
  }

  /** Several resources may share a key: the one that is asked for now. */
  get resource(): string {
    return this.line.head?.resource ?? this.key;
  }

  /** Waits for the lock. Rejects with `LockTimeoutError`, `LockUnavailableError`, or the signal's reason. */
  enter(resource: string, terms: AcquireTerms, now: number, nested: boolean): Promise<Grant> {
    const waiter = new Waiter(resource, terms, now, nested, this.keeper.clock);
    this.line.push(waiter);
    waiter.onAbort((reason) => this.refuse(waiter, reason));
    if (this.state.kind === 'empty') this.contend();
    this.startTimer(waiter);
    this.contender.patienceCame();
    return waiter.granted;
  }

  /**
   * Ends a grant, in good order or lost, and turns to the next waiter: by passing the lock on to it, if that may be. Answers
   * the store's word; what is passed on was held to the end. A lost lock stays closed until `closedUntil`; 0: it is free.
   */
  end(grant: Grant, closedUntil = 0): Promise<boolean> {
    if (this.state.kind !== 'holding' || this.state.grant !== grant) return Promise.resolve(false);
    const { tenure } = this.state;
    const now = this.keeper.clock.now();
    const restMs = grant.state === 'lost' ? 0 : grant.minHoldUntil - now;
    if (restMs <= 0 && grant.state !== 'lost' && this.passOn(grant, tenure, now)) return Promise.resolve(true);
    const released = this.giveBack(grant, restMs > 0 ? grant.minHoldUntil : closedUntil);
    if (restMs > 0) this.rest(grant, tenure, restMs);
    else this.turnToNext();
    return released;
  }

  /** Takes in what was asked for elsewhere, for a caller who stands here alone. */
  adopt(resource: string, terms: AcquireTerms, given: StoreGrant, now: number): Grant {
    return this.hold(resource, terms, new Tenure(given, now), given, now);
  }

  handedOver(handOff: HandOff): void {
    // Told twice, or after the answer to an ask: it is held already.
    if (this.holds(handOff.owner)) return;
    this.contender.handedOver(handOff);
  }

  /** Something may have been missed: whoever waits does not wait for the next time to ask. */
  askAgain(): void {
    this.contender.askAgain();
  }

  disconnected(): void {
    this.contender.disconnected();
  }

  /** Refuses everybody who does not wait inside a hold of this instance. */
  refuseOutsiders(): void {
    for (const waiter of this.line) if (!waiter.nested) this.refuse(waiter, closed(waiter.resource));
  }

  /** Stops for good: nobody waits any more, no timer is left. */
  close(): void {
    for (const waiter of this.line) this.refuse(waiter, closed(waiter.resource));
    if (this.state.kind === 'resting') this.state.timer.cancel();
  }

  holds(owner: string): boolean {
    return 'tenure' in this.state && this.state.tenure.owner === owner;
  }

  get patient(): boolean {
    return this.line.patient;
  }

  /** One for the first in line, and one for each behind it that the lock may be passed on to. */
  get tokens(): number {
    return Math.min(this.line.length - 1, this.keeper.passing.maxLocalPasses) + 1;
  }

  get leaseMs(): number {
    return leaseOf((this.line.head as Waiter).terms);
  }

  granted(given: StoreGrant, now: number): void {
    this.admit(new Tenure(given, now), given, now);
    this.startTimers();
  }

  heard(word: LastWord, limit: number): void {
    this.lastWord = word;
    for (const waiter of this.line.tiredAfter(limit)) this.refuse(waiter, this.refusalOf(waiter));
    this.startTimers();
  }

  settled(): void {
    if (this.state.kind === 'empty') this.keeper.forget(this);
  }

  private contend(): void {
    this.state = CONTENDING;
    this.contender.start();
    this.startTimers();
  }

  private passOn(grant: Grant, tenure: Tenure, now: number): boolean {
    if (this.line.head === undefined || !tenure.pass(now, grant.lease, this.keeper.passing)) return false;
    this.admit(tenure, grant.lease, now);
    return true;
  }

  /** Lets the first in line in. */
  private admit(tenure: Tenure, lease: Lease, now: number): void {
    const waiter = this.line.head as Waiter;
    this.line.remove(waiter);
    waiter.admit(this.hold(waiter.resource, waiter.terms, tenure, lease, now));
  }

  private hold(resource: string, terms: AcquireTerms, tenure: Tenure, lease: Lease, now: number): Grant {
    // Asked for by another one, it may be longer than this one wants to believe in.
    const cut = cutTo(lease, leaseOf(terms), now);
    const grant = new Grant(resource, this.key, tenure.owner, tenure.token, terms, now, cut, this);
    this.state = { kind: 'holding', grant, tenure };
    this.lastWord = heldUntil(undefined);
    this.keeper.granted(grant);
    return grant;
  }

  private giveBack({ resource, owner, ttlMs, lease }: Grant, keepUntil: number): Promise<boolean> {
    // The last renewal may have run although its answer never came: the store may keep it longer than was believed here.
    const leaseMs = Math.max(ttlMs, lease.leaseMs);
    const { key, mode, keeper } = this;
    return keeper.releaser.release({ resource, key, owner, mode, leaseMs, keepUntil });
  }

  private rest(grant: Grant, tenure: Tenure, restMs: number): void {
    const rested = (): void => {
      this.giveBack(grant, 0).catch(() => undefined);
      this.turnToNext();
    };
    const timer = this.keeper.clock.schedule(restMs, rested, true);
    this.state = { kind: 'resting', tenure, until: grant.minHoldUntil, timer };
  }

  private turnToNext(): void {
    if (this.line.head !== undefined) return this.contend();
    this.state = EMPTY;
    if (this.contender.settled) this.keeper.forget(this);
  }

  /** Of those who came before there was an answer; later ones start theirs when they come. */
  private startTimers(): void {
    if (this.timed && this.line.allPatient) return;
    for (const waiter of this.line) this.startTimer(waiter);
    this.timed = this.lastWord !== SILENT;
  }

  private startTimer(waiter: Waiter): void {
    const unheard = this.lastWord === SILENT;
    // Nobody's time is up before the first answer is there: until then the lock is neither busy nor unreachable.
    if (unheard && this.contender.answerDueMs === Infinity) return;
    // Even who does not wait for others (any longer) waits for the store's answer, to learn which of both it is.
    const last = waiter.terms.waitMs === 0 || (unheard && waiter.patienceMs <= 0);
    const delayMs = last ? this.contender.answerDueMs : waiter.patienceMs;
    const over = (): void => this.refuse(waiter, this.refusalOf(waiter));
    waiter.startTimer(delayMs, () => (last || this.lastWord !== SILENT ? over() : this.startTimer(waiter)));
  }

  private refuse(waiter: Waiter, reason: unknown): void {
    if (!this.line.remove(waiter)) return;
    waiter.refuse(reason);
    if (this.line.head !== undefined || this.state.kind !== 'contending') return;
    this.contender.stop();
    this.turnToNext();
  }

  private refusalOf({ resource, enteredAt, terms: { waitMs } }: Waiter): LockError {
    const { key, mode, state } = this;
    let { lastWord } = this;
    if (state.kind === 'holding') lastWord = heldUntil(state.grant.deadline);
    if (state.kind === 'resting') lastWord = heldUntil(state.until);
    return refusal(lastWord, { resource, key, mode, waitMs, enteredAt, now: this.keeper.clock.now() });
  }
}
