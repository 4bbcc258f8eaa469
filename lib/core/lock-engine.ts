import { randomBytes } from 'node:crypto';
import type { Clock } from './clock.js';
import { type EndedEvent, type LockEvent, lockChannels } from './diagnostics.js';
import { LockLostError, LockReentryError } from './errors.js';
import { Gate, type GateKeeper } from './gate.js';
import type { Grant } from './grant.js';
import { heldAround, runInside } from './held-locks.js';
import { Lock, type LockKeeper } from './lock.js';
import type { HolderInfo, LockStore, StoreListener } from './lock-store.js';
import { closed, unavailable } from './refusal.js';
import { Releaser } from './releaser.js';
import type { AcquireTerms } from './waiter.js';
import { Watchdog, type WatchdogEvents } from './watchdog.js';

/** What an engine is made of. */
export interface EngineParts {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  /** The module instance's name, for events. */
  readonly instance: string;
  /** Throws if that is no lease. */
  checkTtl(ttlMs: number): void;
  /** Where one line for each lost lock goes. */
  warn(message: string): void;
}

/** How a lock is asked for; all defaults are filled in. */
export interface EngineTerms extends Omit<AcquireTerms, 'nested'> {
  readonly reentrant: boolean;
  readonly onLost: 'throw' | 'ignore';
}

/** The resource, and the key it is locked under. */
export interface Target {
  readonly resource: string;
  readonly key: string;
}

type EngineState = 'open' | 'draining' | 'closed';

/**
 * One module instance's locks: a gate for each key in use, one watchdog, one releaser, and the way a caller's request
 * takes through them. There is no other way to a lock.
 */
export class LockEngine implements GateKeeper, LockKeeper, WatchdogEvents, StoreListener {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly releaser: Releaser;
  readonly requestTimeoutMs: number;

  /** Random, so that no two instances and no two starts of one ever share an owner. */
  private readonly instanceId = randomBytes(12).toString('base64url');
  private asks = 0;
  private readonly gates = new Map<string, Gate>();
  private readonly watchdog: Watchdog;
  private readonly stopListening: () => void;
  private state: EngineState = 'open';
  private drained: (() => void) | undefined;

  constructor(private readonly parts: EngineParts) {
    this.store = parts.store;
    this.clock = parts.clock;
    this.requestTimeoutMs = parts.requestTimeoutMs;
    this.releaser = new Releaser(this.store, this.clock, this.requestTimeoutMs);
    this.watchdog = new Watchdog(this.store, this.clock, this);
    this.stopListening = this.store.listen(this);
  }

  /** Waits for the lock, or joins the hold that the caller runs in. */
  async acquire(target: Target, terms: EngineTerms): Promise<Lock> {
    terms.signal?.throwIfAborted();
    const outer = heldAround((lock) => this.isOurs(lock) && lock.key === target.key);
    if (outer !== undefined) return this.nest(outer, terms);
    const nested = heldAround((lock) => this.isOurs(lock)) !== undefined;
    if (this.state === 'closed' || (this.state === 'draining' && !nested)) throw closed(target.resource);
    const askedAt = this.clock.now();
    if (lockChannels.asked.hasSubscribers) lockChannels.asked.publish(this.eventOf(target));
    try {
      const grant = await this.gateOf(target).enter({ ...terms, nested });
      this.publishGranted(grant, askedAt);
      return new Lock(grant, this);
    } catch (reason) {
      this.publishRefused(target, askedAt, reason);
      throw reason;
    }
  }

  /** Runs `fn` under the lock. The release never hides what `fn` answered or threw; a loss does, if `onLost` says so. */
  async using<T>(target: Target, terms: EngineTerms, fn: (lock: Lock) => T | Promise<T>): Promise<T> {
    const lock = await this.acquire(target, terms);
    return this.runUnder(lock, terms, fn);
  }

  /** The second half of `using`, for who has acquired already. */
  async runUnder<T>(lock: Lock, terms: Pick<EngineTerms, 'onLost'>, fn: (lock: Lock) => T | Promise<T>): Promise<T> {
    let failure: { readonly error: unknown } | undefined;
    let result: T | undefined;
    try {
      result = await runInside({ lock }, () => fn(lock));
    } catch (error) {
      failure = { error };
    }
    await this.settle(lock, terms, failure?.error);
    if (failure !== undefined) throw failure.error;
    return result as T;
  }

  /** Releases after the work. Throws only if the work was not under the lock to its end, and that counts. */
  async settle(lock: Lock, { onLost }: Pick<EngineTerms, 'onLost'>, workError?: unknown): Promise<void> {
    if (lock.held && lock.expiresInMs === 0) this.expire(lock.shared);
    const { loss } = lock;
    // What the work has to say is not hidden by a release that failed: it is repeated behind it.
    await lock.release().catch(() => undefined);
    if (loss === undefined || onLost === 'ignore') return;
    const { message, resource, elapsedMs } = loss;
    throw new LockLostError(message, { resource, elapsedMs, cause: workError });
  }

  inspect(key: string): Promise<HolderInfo | null> {
    return this.store.inspect(key);
  }

  /** Whether the holder that `inspect` names is this instance. */
  isSelf({ holder }: HolderInfo): boolean {
    return holder === this.instanceId;
  }

  /** The innermost hold around the caller, of that key or of any. */
  current(key?: string): Lock | undefined {
    return heldAround((lock) => this.isOurs(lock) && (key === undefined || lock.key === key));
  }

  /** Lets running holds finish for at most `graceMs`, refuses everybody else, then ends what is still held. */
  async close(graceMs: number): Promise<void> {
    if (this.state !== 'open') return;
    this.state = 'draining';
    for (const gate of [...this.gates.values()]) gate.refuseOutsiders();
    if (this.watchdog.size > 0) await this.grace(graceMs);
    this.state = 'closed';
    const abandoned = [...this.watchdog.grants()];
    await Promise.allSettled(abandoned.map((grant) => this.abandon(grant)));
    for (const gate of [...this.gates.values()]) gate.close();
    this.gates.clear();
    this.watchdog.close();
    this.releaser.close();
    this.stopListening();
  }

  now(): number {
    return this.clock.now();
  }

  nextOwner(): string {
    this.asks += 1;
    return `${this.instanceId}:${this.asks}`;
  }

  granted(grant: Grant): void {
    this.watchdog.watch(grant);
  }

  forget(gate: Gate): void {
    if (this.gates.get(gate.key) === gate) this.gates.delete(gate.key);
  }

  release(grant: Grant): Promise<boolean> {
    grant.end();
    this.ended(grant);
    if (lockChannels.released.hasSubscribers) lockChannels.released.publish(this.endedEventOf(grant));
    return this.gates.get(grant.key)?.end(grant) ?? Promise.resolve(false);
  }

  async extend(grant: Grant, ttlMs: number): Promise<void> {
    this.parts.checkTtl(ttlMs);
    grant.ttlMs = ttlMs;
    const reply = await this.inTime(this.watchdog.renew(grant));
    if (grant.loss !== undefined) throw grant.loss;
    if (reply === 'renewed') return;
    throw unavailable(grant.resource, 'its lease could not be extended, no answer from the store');
  }

  expire(grant: Grant): void {
    this.lost(grant, 'its lease ran out');
  }

  extended(grant: Grant): void {
    if (lockChannels.extended.hasSubscribers) lockChannels.extended.publish(this.eventOf(grant));
  }

  lost(grant: Grant, why: string, cause?: unknown): void {
    const error = grant.lose(why, this.clock.now(), cause);
    if (error === undefined) return;
    this.ended(grant);
    // Whether it is still there or not: what nobody holds must not stay closed. A failure is repeated by the releaser.
    this.gates.get(grant.key)?.end(grant).catch(() => undefined);
    this.parts.warn(error.message);
    if (lockChannels.lost.hasSubscribers) lockChannels.lost.publish(this.endedEventOf(grant));
  }

  disconnected(): void {
    for (const gate of [...this.gates.values()]) gate.disconnected();
    this.watchdog.disconnected();
  }

  unreachable(error: Error): void {
    this.parts.warn(`Redis cannot be reached, locks are unavailable until it answers: ${error.message}`);
  }

  reachable(): void {}

  private gateOf({ resource, key }: Target): Gate {
    const known = this.gates.get(key);
    if (known !== undefined) return known;
    const gate = new Gate(resource, key, this);
    this.gates.set(key, gate);
    return gate;
  }

  private isOurs(lock: Lock): boolean {
    return lock.isKeptBy(this);
  }

  private nest(outer: Lock, { reentrant }: EngineTerms): Lock {
    outer.assertHeld();
    if (reentrant) return new Lock(outer.shared, this);
    const message = `${outer.resource} is held by the caller itself already, and reentrancy is off.`;
    throw new LockReentryError(message, { resource: outer.resource });
  }

  private ended(grant: Grant): void {
    this.watchdog.forget(grant);
    if (this.watchdog.size === 0) this.drained?.();
  }

  private grace(graceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.clock.schedule(graceMs, resolve);
      this.drained = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  /** Shutting down did not wait any longer for this one's work. */
  private async abandon(grant: Grant): Promise<void> {
    const gate = this.gates.get(grant.key);
    const error = grant.lose('the application is shutting down', this.clock.now(), closed(grant.resource));
    if (error !== undefined) this.parts.warn(error.message);
    await gate?.end(grant);
  }

  private inTime<T>(answer: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const timer = this.clock.schedule(this.requestTimeoutMs, () => resolve(undefined));
      answer.then(resolve, reject).finally(() => timer.cancel());
    });
  }

  private eventOf({ resource, key }: Target): LockEvent {
    return { resource, key, instance: this.parts.instance };
  }

  private endedEventOf(grant: Grant): EndedEvent {
    return { ...this.eventOf(grant), heldMs: this.clock.now() - grant.grantedAt };
  }

  private publishGranted(grant: Grant, askedAt: number): void {
    if (!lockChannels.granted.hasSubscribers) return;
    const waitedMs = grant.grantedAt - askedAt;
    lockChannels.granted.publish({ ...this.eventOf(grant), waitedMs, fencingToken: grant.token });
  }

  private publishRefused(target: Target, askedAt: number, reason: unknown): void {
    if (!lockChannels.refused.hasSubscribers) return;
    lockChannels.refused.publish({ ...this.eventOf(target), waitedMs: this.clock.now() - askedAt, reason });
  }
}
