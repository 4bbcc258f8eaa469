import { type Grant, Ownership, type OwnershipUser } from '../lease/grant.js';
import type { StoreGrant } from '../lease/lease.js';
import { closedError } from '../lifecycle.js';
import type { Handoff, KeyFilter, LockMode, StoreListener } from '../store/lock-store.js';
import { outageError } from './acquire-errors.js';
import {
  type AcquireDeps,
  leaseOf,
  outageFor,
  type Target,
  type WaitingCaller,
  type WaitOptions,
} from './acquire-options.js';
import type { AcquireLoop } from './acquire-loop.js';
import type { Attempt } from './attempt.js';
import { Line } from './line.js';
import { MultiAcquire, type Obstacle } from './multi-acquire.js';
import { ThinCall, type ThinCallUser } from './thin-call.js';
import { Waiter } from './waiters.js';

type LinesListener = Pick<StoreListener, 'onHandoff' | 'onReleased' | 'onSubscribed' | 'onDisconnected'>;

const NO_LINES: readonly Line[] = [];

/**
 * The lines of the keys that are in use in one module instance: one for each key and mode. A key that only one caller
 * uses, exclusively, has no line: it is thin.
 */
export class Lines implements LinesListener, OwnershipUser, ThinCallUser {
  /** By key. Nearly always one. */
  private readonly byKey = new Map<string, readonly Line[]>();
  /** By key: the only caller while its request is on its way, then what it has. Such a key has no exclusive line. */
  private readonly thin = new Map<string, ThinCall | Ownership>();
  /** What was acquired together with others. No caller waits there. */
  private readonly bare = new Set<Ownership>();
  private readonly multiAcquires = new Set<MultiAcquire>();

  constructor(private readonly deps: AcquireDeps) {}

  /** How many entries are kept, 0 if nothing is in use. @internal */
  get size(): number {
    return [...this.all()].length + this.thin.size + this.bare.size + this.multiAcquires.size;
  }

  /**
   * Waits for the lock. Rejects with `LockTimeoutError`, `LockUnavailableError`, or the signal's reason. Refuses a
   * caller beyond `maxWaiting` at once, see {@link Line.refuseAtOnce}.
   *
   * @param enteredAt when the caller began to wait: earlier than `now` if it has waited for other locks.
   */
  acquire(target: Target, options: WaitOptions, now: number, nested: boolean, enteredAt = now): Promise<Grant> {
    if (this.mayBeThin(target.key, options)) return this.acquireAlone(target, options, now, nested, enteredAt);
    const { key, resource, call } = target;
    const { mode, maxWaiting, signal } = options;
    this.inflateAt(key);
    if (maxWaiting !== undefined) {
      const line = this.open(key, mode);
      const waiting = this.waitingBeside(line);
      if (waiting >= line.longest(options)) return line.refuseAtOnce(target, options, now, waiting);
    }
    const waiter = new Waiter(resource, options, enteredAt, nested, this.deps.clock, call);
    if (signal === undefined || this.listen(waiter, key)) this.join(key, waiter, now);
    return waiter.result;
  }

  /** Returns true if a caller here holds one of the keys exclusively, or waits for that. */
  hasExclusive(targets: readonly Target[]): boolean {
    return targets.some(({ key }) => this.thin.has(key) || this.find(key, 'exclusive') !== undefined);
  }

  /** Acquires all of them in one request, without waiting for other holders. See {@link MultiAcquire.send}. */
  async acquireTogether(
    targets: readonly Target[],
    options: WaitOptions,
    nested: boolean,
    enteredAt: number,
  ): Promise<readonly Grant[] | Obstacle> {
    if (this.deps.health.isAnySilent) this.checkOutage(targets[0], options, enteredAt);
    const leaseMs = leaseOf(options);
    const request = new MultiAcquire(targets, options, { nested, enteredAt }, this.deps, (given, now) => {
      const grants = targets.map(({ resource, key, call = 0 }) => {
        const ownership = new Ownership(key, options.mode, given, now, this.deps, this);
        this.bare.add(ownership);
        return ownership.grantTo({ resource, options, leaseMs, call }, now);
      });
      for (const grant of grants) options.onGranted?.(grant);
      options.onGranted = undefined;
      return grants;
    });
    this.multiAcquires.add(request);
    try {
      return await request.send();
    } finally {
      this.multiAcquires.delete(request);
    }
  }

  /** The next caller must not count on a lock that somebody may have released by force. */
  onForceReleased(key: string): void {
    const user = this.thin.get(key);
    if (user instanceof Ownership) user.endRest();
    for (const line of this.at(key)) line.onForceReleased();
  }

  onHandoff(handoff: Handoff): void {
    const { owner, leaseMs, mode } = handoff;
    const [key] = handoff.keys;
    const user = mode === 'exclusive' ? this.thin.get(key) : undefined;
    // A duplicate of what a reply has granted already.
    if (user instanceof Ownership && user.owner === owner) return;
    if (user instanceof ThinCall) this.inflate(user);
    if (this.find(key, mode)?.onHandoff(handoff)) return;
    // No caller here waits for it: the next owner in the store's queue must get it.
    this.deps.releaser.releaseBehind({ resource: key, key, owner, mode, leaseMs, closedUntil: 0 });
  }

  onReleased(key: string): void {
    for (const line of this.at(key)) line.onReleasedByOthers();
  }

  onSubscribed(concerns?: KeyFilter): void {
    for (const line of this.all(concerns)) line.retryNow();
  }

  onDisconnected(concerns?: KeyFilter): void {
    // It becomes a line by that.
    for (const { attempt } of this.thinCalls(concerns)) attempt.onDisconnected();
    for (const line of this.all(concerns)) line.onDisconnected();
    for (const request of this.multiAcquires) if (concerns?.(request.key) !== false) request.onDisconnected();
  }

  /** Called if a server is seen to be silent. Rejects the callers that no longer wait for it. */
  onSilent(): void {
    for (const call of this.thinCalls()) this.inflate(call);
    for (const line of this.all()) line.refuseIfUnavailable();
    for (const request of this.multiAcquires) request.refuseIfUnavailable();
  }

  /** Rejects the callers that do not run in a hold of this engine: all, or those for whose work nobody waits. */
  refuseOutsiders(onlyBackground: boolean): void {
    for (const call of this.thinCalls()) this.inflate(call);
    for (const line of this.all()) line.refuseOutsiders(onlyBackground);
    for (const request of this.multiAcquires) {
      if (request.caller.nested || (onlyBackground && !request.isBackground)) continue;
      request.refuse(closedError(request.resource));
    }
  }

  /** Rejects all callers and cancels all timers. */
  close(): void {
    for (const key of this.thin.keys()) this.inflateAt(key);
    for (const each of [...this.all(), ...this.bare]) each.close();
    for (const request of this.multiAcquires) request.refuse(closedError(request.resource));
  }

  /** Returns the lines of a key. @internal */
  at(key: string): readonly Line[] {
    return this.byKey.get(key) ?? NO_LINES;
  }

  /** Returns the attempts of a key whose requests may be on their way. The model checker reads them. @internal */
  attemptsAt(key: string): readonly Attempt[] {
    const call = this.thin.get(key);
    const ofLines = this.at(key).flatMap(({ loops }) =>
      loops.flatMap(({ state }) => ('attempt' in state ? state.attempt : [])),
    );
    return call instanceof ThinCall ? [call.attempt, ...ofLines] : ofLines;
  }

  /** Yields the keys for which callers wait behind a holder of this instance. */
  *keysBehindOwn(): Generator<string> {
    for (const line of this.all()) if (line.isBehindOwn) yield line.key;
  }

  /** Yields the callers that wait for a lock, or for the reply to a request for several. */
  *waiting(): Generator<WaitingCaller> {
    for (const { attempt, resource, call, options, enteredAt } of this.thinCalls())
      yield { resource, key: attempt.keys[0], call, options, enteredAt };
    for (const { key, waiters } of this.all())
      for (const { resource, call, options, enteredAt } of waiters) yield { resource, key, call, options, enteredAt };
    for (const request of this.multiAcquires) yield* request.waiting();
  }

  /** Returns how many callers wait for a key. */
  waitingAt(key: string): number {
    const alone = this.thin.get(key) instanceof ThinCall ? 1 : 0;
    return this.at(key).reduce((sum, { length }) => sum + length, alone);
  }

  /** See {@link ThinCallUser}. @internal */
  onGranted(call: ThinCall, given: StoreGrant, now: number): void {
    const [key] = call.attempt.keys;
    const ownership = new Ownership(key, 'exclusive', given, now, this.deps, this);
    // Before the caller knows of it.
    this.thin.set(key, ownership);
    call.admit(ownership.grantTo(call, now));
  }

  /** See {@link ThinCallUser}. @internal */
  inflate(call: ThinCall): AcquireLoop {
    const [key] = call.attempt.keys;
    this.thin.delete(key);
    return this.open(key, 'exclusive').adoptCall(call);
  }

  /** See {@link OwnershipUser}: nobody else waits here. @internal */
  passOn(): boolean {
    return false;
  }

  /** See {@link OwnershipUser}. @internal */
  onRestEnded(ownership: Ownership): void {
    this.onOver(ownership);
  }

  /** See {@link OwnershipUser}. @internal */
  onOver(ownership: Ownership): void {
    if (this.thin.get(ownership.key) === ownership) this.thin.delete(ownership.key);
    else this.bare.delete(ownership);
  }

  private acquireAlone(
    target: Target,
    options: WaitOptions,
    now: number,
    nested: boolean,
    enteredAt: number,
  ): Promise<Grant> {
    const { key } = target;
    const call = new ThinCall(target, options, enteredAt, nested, this.deps, this);
    if (options.signal !== undefined && !this.listen(call, key)) return call.result;
    // The signal's own code may have acquired the same key.
    const isAlone = options.signal === undefined || this.mayBeThin(key, options);
    if (!isAlone) this.join(key, call, now);
    else {
      this.thin.set(key, call);
      if (!call.start(now)) {
        this.thin.delete(key);
        this.join(key, call, now);
      }
    }
    return call.result;
  }

  private mayBeThin(key: string, { mode, maxWaiting = Infinity }: WaitOptions): boolean {
    const { store, health, turns } = this.deps;
    if (mode !== 'exclusive' || maxWaiting === 0 || !store.capabilities.queue || health.isAnySilent) return false;
    return !this.thin.has(key) && !this.byKey.has(key) && turns?.isShared(key) !== true;
  }

  private join(key: string, waiter: Waiter, now: number): void {
    this.inflateAt(key);
    this.open(key, waiter.options.mode).join(waiter, now);
  }

  /** Makes a line of what a thin key has. */
  private inflateAt(key: string): void {
    const user = this.thin.get(key);
    if (user instanceof ThinCall) this.inflate(user);
    else if (user !== undefined) {
      this.thin.delete(key);
      this.open(key, 'exclusive').adoptOwned(user);
    }
  }

  private *thinCalls(concerns: KeyFilter = () => true): Generator<ThinCall> {
    for (const [key, user] of this.thin) if (user instanceof ThinCall && concerns(key)) yield user;
  }

  /** Returns false if the caller was refused. */
  private listen(waiter: Waiter, key: string): boolean {
    try {
      waiter.listen(waiter.options.signal, (reason) => {
        if (this.thin.get(key) === waiter) this.inflateAt(key);
        this.find(key, waiter.options.mode)?.refuse(waiter, reason);
      });
      return true;
    } catch (error) {
      waiter.refuse(error);
      return false;
    }
  }

  /** @throws LockUnavailableError if a caller with these options does not wait for the silent server of the target. */
  private checkOutage({ resource, key }: Target, options: WaitOptions, enteredAt: number): void {
    const { health, clock } = this.deps;
    const outage = outageFor(health, key, options);
    if (outage !== undefined) throw outageError(resource, outage, clock.now() - enteredAt);
  }

  /** Returns how many callers of the key count for `maxWaiting`, as seen by a caller that comes to this line. */
  private waitingBeside(line: Line): number {
    const lines = this.at(line.key);
    if (lines.length === 1 || line.isServedTogether) return line.length;
    return lines.reduce((sum, each) => (each.isServedTogether ? sum : sum + each.length), 0);
  }

  private find(key: string, mode: LockMode): Line | undefined {
    const lines = this.at(key);
    return lines.length === 1 && lines[0].mode === mode ? lines[0] : lines.find((line) => line.mode === mode);
  }

  private open(key: string, mode: LockMode): Line {
    const known = this.find(key, mode);
    if (known !== undefined) return known;
    const line = new Line(key, mode, this.deps, this.forget);
    this.byKey.set(key, [...this.at(key), line]);
    return line;
  }

  private readonly forget = (line: Line): void => {
    const others = this.at(line.key).filter((other) => other !== line);
    if (others.length > 0) this.byKey.set(line.key, others);
    else this.byKey.delete(line.key);
  };

  private *all(concerns: KeyFilter = () => true): Generator<Line> {
    for (const [key, lines] of this.byKey) if (concerns(key)) yield* lines;
  }
}
