import type { Grant } from '../lease/grant.js';
import { Ownership } from '../lease/ownership.js';
import type { Handoff, KeyFilter, LockMode, StoreListener } from '../store/lock-store.js';
import { closed, outageError } from './acquire-errors.js';
import {
  type AcquireDeps,
  leaseOf,
  outageFor,
  type Target,
  type WaitingCaller,
  type WaitOptions,
} from './acquire-options.js';
import { Line } from './line.js';
import { MultiAcquire, type Obstacle } from './multi-acquire.js';
import { Waiter } from './waiters.js';

type LinesListener = Pick<StoreListener, 'onHandoff' | 'onReleased' | 'onSubscribed' | 'onDisconnected'>;

const NO_LINES: readonly Line[] = [];

/** The lines of the keys that are in use in one module instance: one for each key and mode. */
export class Lines implements LinesListener {
  /** By key. Nearly always one. */
  private readonly byKey = new Map<string, readonly Line[]>();
  /** What was acquired together with others. No caller waits there. */
  private readonly bare = new Set<Ownership>();
  private readonly multiAcquires = new Set<MultiAcquire>();

  constructor(private readonly deps: AcquireDeps) {}

  /** How many entries are kept, 0 if nothing is in use. @internal */
  get size(): number {
    return [...this.all()].length + this.bare.size + this.multiAcquires.size;
  }

  /**
   * Waits for the lock. Rejects with `LockTimeoutError`, `LockUnavailableError`, or the signal's reason. Refuses a
   * caller beyond `maxWaiting` at once, see {@link Line.refuseAtOnce}.
   */
  acquire(target: Target, options: WaitOptions, now: number, nested: boolean): Promise<Grant> {
    const { key, resource, call } = target;
    const { mode, maxWaiting, signal } = options;
    if (maxWaiting !== undefined) {
      const line = this.open(key, mode);
      const waiting = this.waitingBeside(line);
      if (waiting >= line.longest(options)) return line.refuseAtOnce(target, options, now, waiting);
    }
    const waiter = new Waiter(resource, options, now, nested, this.deps.clock, call);
    // The signal's own code may acquire the same key, so the line is looked up afterwards.
    if (signal === undefined || this.listen(waiter, key)) this.open(key, mode).join(waiter, now);
    return waiter.granted;
  }

  /** Returns true if a caller here holds one of the keys exclusively, or waits for that. */
  hasExclusive(targets: readonly Target[]): boolean {
    return targets.some(({ key }) => this.find(key, 'exclusive') !== undefined);
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
    const user = { passOn: () => false, onOver: (ownership: Ownership) => void this.bare.delete(ownership) };
    const request = new MultiAcquire(targets, options, { nested, enteredAt }, this.deps, (given, now) => {
      const grants = targets.map(({ resource, key, call = 0 }) => {
        const ownership = new Ownership(key, options.mode, given, now, this.deps, user);
        this.bare.add(ownership);
        const grant = ownership.grantTo({ resource, options, leaseMs }, now);
        grant.ready = this.deps.watch(grant);
        grant.call = call;
        return grant;
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
    for (const line of this.at(key)) line.onForceReleased();
  }

  onHandoff(handoff: Handoff): void {
    const { owner, leaseMs, mode } = handoff;
    const [key] = handoff.keys;
    if (this.find(key, mode)?.onHandoff(handoff)) return;
    // No caller here waits for it: the next owner in the store's queue must get it.
    this.deps.releaser.releaseBehind({ resource: key, key, owner, mode, leaseMs, closedUntil: 0 });
  }

  onReleased(key: string): void {
    this.deps.turns?.onOthersSeen(key);
    for (const line of this.at(key)) line.onReleasedByOthers();
  }

  onSubscribed(concerns?: KeyFilter): void {
    for (const line of this.all(concerns)) line.retryNow();
  }

  onDisconnected(concerns?: KeyFilter): void {
    for (const line of this.all(concerns)) line.onDisconnected();
    for (const request of this.multiAcquires) if (concerns?.(request.key) !== false) request.onDisconnected();
  }

  /** Called if a server is seen to be silent. Rejects the callers that wait no longer for it. */
  onSilent(): void {
    for (const line of this.all()) line.refuseIfUnavailable();
    for (const request of this.multiAcquires) request.refuseIfUnavailable();
  }

  /** Rejects the callers for whose work nobody waits, unless they run in a hold of this engine. */
  refuseBackground(): void {
    for (const line of this.all()) line.refuseOutsiders(true);
    for (const request of this.multiAcquires) if (request.isBackground) request.refuse(closed(request.resource));
  }

  /** Rejects all callers that do not run in a hold of this engine. */
  refuseOutsiders(): void {
    for (const line of this.all()) line.refuseOutsiders();
    for (const request of this.multiAcquires) if (!request.caller.nested) request.refuse(closed(request.resource));
  }

  /** Rejects all callers and cancels all timers. */
  close(): void {
    for (const each of [...this.all(), ...this.bare]) each.close();
    for (const request of this.multiAcquires) request.refuse(closed(request.resource));
  }

  /** Returns the lines of a key. @internal */
  at(key: string): readonly Line[] {
    return this.byKey.get(key) ?? NO_LINES;
  }

  /** Yields the keys for which callers wait behind a holder of this instance. */
  *keysBehindOwn(): Generator<string> {
    for (const line of this.all()) if (line.isBehindOwn) yield line.key;
  }

  /** Yields the callers that wait for a lock, or for the reply to a request for several. */
  *waiting(): Generator<WaitingCaller> {
    for (const { key, waiters } of this.all())
      for (const { resource, call, options, enteredAt } of waiters) yield { resource, key, call, options, enteredAt };
    for (const request of this.multiAcquires) yield* request.waiting();
  }

  /** Returns how many callers wait for a key. */
  waitingAt(key: string): number {
    return this.at(key).reduce((sum, { length }) => sum + length, 0);
  }

  /** Returns false if the caller was refused. */
  private listen(waiter: Waiter, key: string): boolean {
    try {
      waiter.listen((reason) => this.find(key, waiter.options.mode)?.refuse(waiter, reason));
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
