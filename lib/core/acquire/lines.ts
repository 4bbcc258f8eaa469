import type { Target } from '../events/call.js';
import { type Grant, Ownership, type OwnershipUser } from '../lease/grant.js';
import { closedError } from '../lifecycle.js';
import type { Handoff, KeyFilter, LockMode, StoreListener } from '../store/lock-store.js';
import { outageError } from './acquire-errors.js';
import { type AcquireDeps, leaseOf, outageFor, type WaitingCaller, type WaitOptions } from './acquire-options.js';
import type { Attempt } from './attempt.js';
import { Line } from './line.js';
import { MultiAcquire, type Obstacle } from './multi-acquire.js';
import { Waiter } from './waiters.js';

type LinesListener = Pick<StoreListener, 'onHandoff' | 'onReleased' | 'onSubscribed' | 'onDisconnected'>;

/** The lines of the keys that are in use in one module instance: one for each key and mode. */
export class Lines implements LinesListener, OwnershipUser {
  /** By mode and key. */
  private readonly byMode = new Map<LockMode, Map<string, Line>>();
  /** Ownerships of locks that were acquired together. No line waits for them. */
  private readonly bare = new Set<Ownership>();
  private readonly multiAcquires = new Set<MultiAcquire>();

  constructor(private readonly deps: AcquireDeps) {}

  /** Returns where the key's server is. Undefined if that is not known. */
  placeOf(key: string): string | undefined {
    return this.deps.health.placeOf(key);
  }

  /** How many entries are kept, 0 if nothing is in use. @internal */
  get size(): number {
    const modes = [...this.byMode.keys()].filter((mode) => mode !== 'exclusive');
    return modes.length + [...this.all()].length + this.bare.size + this.multiAcquires.size;
  }

  /**
   * Waits for the lock. Rejects with `LockTimeoutError`, `LockUnavailableError`, or the signal's reason. Refuses a
   * caller beyond `maxWaiting` immediately, see {@link Line.refuseAtOnce}.
   *
   * @param enteredAt when the caller began to wait: earlier than `now` if it has waited for other locks.
   */
  acquire(target: Target, options: WaitOptions, now: number, nested: boolean, enteredAt = now): Promise<Grant> {
    const { key, resource, call } = target;
    const { mode, signal } = options;
    const line = this.open(key, mode);
    const waiting = this.waitingBeside(line);
    if (waiting >= line.longest(options)) return line.refuseAtOnce(target, options, now, waiting);
    const waiter = new Waiter(resource, options, enteredAt, nested, this.deps.clock, call);
    if (signal === undefined) line.join(waiter, now);
    // The signal's own code may have ended the line.
    else if (this.listen(waiter, key)) this.open(key, mode).join(waiter, now);
    return waiter.result;
  }

  /** Returns true if a caller here holds one of the keys exclusively, or waits to. */
  hasExclusive(targets: readonly Target[]): boolean {
    return targets.some(({ key }) => this.find(key, 'exclusive') !== undefined);
  }

  /** Acquires all targets in one request, without waiting for other holders. See {@link MultiAcquire.send}. */
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

  /** The next caller must not rely on a lock that somebody may have released by force. */
  onForceReleased(key: string): void {
    for (const line of this.at(key)) line.onForceReleased();
  }

  onHandoff(handoff: Handoff): void {
    const { owner, leaseMs, mode } = handoff;
    const [key] = handoff.keys;
    if (this.find(key, mode)?.onHandoff(handoff)) return;
    // No caller here waits for it, so the next owner in the store's queue must get it.
    this.deps.releaser.releaseBehind({ resource: key, key, owner, mode, leaseMs, closedUntil: 0 });
  }

  onReleased(key: string): void {
    for (const line of this.at(key)) line.onReleasedByOthers();
  }

  onSubscribed(concerns?: KeyFilter): void {
    for (const line of this.all(concerns)) line.retryNow();
  }

  onDisconnected(concerns?: KeyFilter): void {
    for (const line of this.all(concerns)) line.onDisconnected();
    for (const request of this.multiAcquires) if (concerns?.(request.key) !== false) request.onDisconnected();
  }

  /** Called if a server is seen to be silent. Rejects the callers that no longer wait for it. */
  onSilent(): void {
    for (const line of this.all()) line.refuseIfUnavailable();
    for (const request of this.multiAcquires) request.refuseIfUnavailable();
  }

  /** Rejects the callers that do not run in a hold of this engine. */
  refuseOutsiders(): void {
    for (const line of this.all()) line.refuseOutsiders();
    for (const request of this.multiAcquires) {
      if (!request.caller.nested) request.refuse(closedError(request.resource));
    }
  }

  /** Rejects all callers and cancels all timers. */
  close(): void {
    for (const each of [...this.all(), ...this.bare]) each.close();
    for (const request of this.multiAcquires) request.refuse(closedError(request.resource));
  }

  /** Returns the lines of a key. @internal */
  at(key: string): readonly Line[] {
    const found: Line[] = [];
    for (const lines of this.byMode.values()) {
      const line = lines.get(key);
      if (line !== undefined) found.push(line);
    }
    return found;
  }

  /** Returns the attempts of a key whose requests may be on their way. The model checker reads them. @internal */
  attemptsAt(key: string): readonly Attempt[] {
    return this.at(key).flatMap(({ loops }) => loops.flatMap(({ state }) => ('attempt' in state ? state.attempt : [])));
  }

  /** Yields the callers that wait for a lock, or for the reply to a request for several. */
  *waiting(): Generator<WaitingCaller> {
    for (const { key, waiters } of this.all())
      for (const { resource, call, options, enteredAt } of waiters) yield { resource, key, call, options, enteredAt };
    for (const request of this.multiAcquires) yield* request.waiting();
  }

  /** Returns the `@Locked` method that holds a key in this module instance. Undefined if none is known. */
  methodAt(key: string): string | undefined {
    const bare = [...this.bare].filter((ownership) => ownership.key === key);
    const grants = [...this.at(key), ...bare].flatMap((each) => each.grants);
    return grants.find(({ options }) => options.method !== undefined)?.options.method;
  }

  /** Returns how many callers wait for a key. */
  waitingAt(key: string): number {
    return this.at(key).reduce((sum, { length }) => sum + length, 0);
  }

  /** See {@link OwnershipUser}. Nobody else waits here. @internal */
  passOn(): boolean {
    return false;
  }

  /** See {@link OwnershipUser}. @internal */
  onRestEnded(ownership: Ownership): void {
    this.onOver(ownership);
  }

  /** See {@link OwnershipUser}. @internal */
  onOver(ownership: Ownership): void {
    this.bare.delete(ownership);
  }

  /** Returns false if the caller was refused. */
  private listen(waiter: Waiter, key: string): boolean {
    try {
      waiter.listen(waiter.options.signal, (reason) => {
        this.find(key, waiter.options.mode)?.refuse(waiter, reason);
      });
      return true;
    } catch (error) {
      waiter.refuse(error);
      this.find(key, waiter.options.mode)?.forgetIfIdle();
      return false;
    }
  }

  /** @throws LockUnavailableError if a caller with these options does not wait for the silent server of the target. */
  private checkOutage({ resource, key }: Target, options: WaitOptions, enteredAt: number): void {
    const { health, clock } = this.deps;
    const outage = outageFor(health, key, options);
    if (outage !== undefined) throw outageError(resource, outage, clock.now() - enteredAt);
  }

  /** Returns how many callers of the key count toward `maxWaiting` for a caller that joins this line. */
  private waitingBeside(line: Line): number {
    if (line.isServedTogether || this.byMode.size === 1) return line.length;
    return this.at(line.key).reduce((sum, each) => (each.isServedTogether ? sum : sum + each.length), 0);
  }

  private find(key: string, mode: LockMode): Line | undefined {
    return this.byMode.get(mode)?.get(key);
  }

  private open(key: string, mode: LockMode): Line {
    let lines = this.byMode.get(mode);
    if (lines === undefined) this.byMode.set(mode, (lines = new Map()));
    let line = lines.get(key);
    if (line === undefined) lines.set(key, (line = this.newLine(key, mode)));
    return line;
  }

  private newLine(key: string, mode: LockMode): Line {
    return new Line(key, mode, this.deps, this.forget, () => this.methodAt(key));
  }

  private readonly forget = (line: Line): void => {
    const { key, mode } = line;
    const lines = this.byMode.get(mode);
    // A subscriber to an event may have acquired the key again since the line ended.
    if (lines?.get(key) !== line) return;
    lines.delete(key);
    // Each number of permits is a mode of its own. The map of the exclusive mode stays, because most calls use it.
    if (lines.size === 0 && mode !== 'exclusive') this.byMode.delete(mode);
  };

  private *all(concerns: KeyFilter = () => true): Generator<Line> {
    for (const lines of this.byMode.values()) for (const [key, line] of lines) if (concerns(key)) yield line;
  }
}
