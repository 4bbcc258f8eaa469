import { randomBytes } from 'node:crypto';
import { Acquirer, type EngineState } from './acquirer.js';
import { inTime } from './clock.js';
import { DelayedStore } from './delayed-store.js';
import { LockEvents } from './diagnostics.js';
import type { EngineParts, EngineTerms, Target } from './engine-terms.js';
import type { Gate, GateKeeper } from './gate.js';
import { Gates } from './gates.js';
import type { Grant } from './grant.js';
import { heldAround, runOutside } from './held-locks.js';
import { Lock, type LockKeeper } from './lock.js';
import type { ExtendReply, LockState, LockStore } from './lock-store.js';
import type { MultiLock } from './multi-lock.js';
import { PooledClock } from './pooled-clock.js';
import { closed, notExtended, unavailable } from './refusal.js';
import { Releaser } from './releaser.js';
import { StoreHealth } from './store-health.js';
import { StoreNews } from './store-news.js';
import type { PassingLimits } from './tenure.js';
import { Watchdog, type WatchdogEvents } from './watchdog.js';

/**
 * One module instance's locks: a gate for each key in use, one watchdog, one releaser, and the way a caller's request
 * takes through them. There is no other way to a lock.
 */
export class LockEngine implements GateKeeper, LockKeeper, WatchdogEvents {
  readonly store: LockStore;
  readonly clock: PooledClock;
  readonly releaser: Releaser;
  readonly health: StoreHealth;
  readonly requestTimeoutMs: number;
  readonly passing: PassingLimits;

  /** Random, so that no two instances and no two starts of one ever share an owner. */
  readonly instanceId = randomBytes(12).toString('base64url');
  private asks = 0;
  private readonly gates = new Gates(this);
  private readonly acquirer: Acquirer;
  private readonly watchdog: Watchdog;
  private readonly events: LockEvents;
  private readonly stopListening: () => void;
  private phase: EngineState = 'open';
  private drained: (() => void) | undefined;

  constructor(private readonly parts: EngineParts) {
    this.store = parts.lockDelayMs > 0 ? new DelayedStore(parts.store, parts.lockDelayMs) : parts.store;
    this.clock = new PooledClock(parts.clock, parts.requestTimeoutMs);
    this.requestTimeoutMs = parts.requestTimeoutMs;
    this.passing = parts.passing;
    const warn = (message: string): void => parts.warn(message);
    this.health = new StoreHealth(warn, (key) => this.store.serverOf?.(key));
    this.events = new LockEvents(parts.instance);
    this.acquirer = new Acquirer(this, this.gates, this.events);
    this.releaser = new Releaser(this.store, this.clock, this.requestTimeoutMs, this.passing, parts.lockDelayMs);
    this.watchdog = new Watchdog(this.store, this.clock, this);
    this.stopListening = this.store.listen(
      new StoreNews(this.instanceId, this.gates, this.watchdog, this.health, warn),
    );
  }

  /** See {@link Acquirer.acquire}. */
  acquire(target: Target, terms: EngineTerms): Promise<Lock> {
    return this.acquirer.acquire(target, terms);
  }

  /** See {@link Acquirer.acquireAll}. */
  acquireAll(targets: readonly Target[], terms: EngineTerms): Promise<MultiLock> {
    return this.acquirer.acquireAll(targets, terms);
  }

  inspect(key: string): Promise<LockState | null> {
    return inTime(this.clock, this.requestTimeoutMs, this.store.inspect(key), () => {
      throw unavailable(key, `no answer within ${this.requestTimeoutMs} ms`, { cause: this.health.outageOf(key) });
    });
  }

  /** Whether that is the id of this instance, by which stores know it. */
  isSelf(instanceId: string): boolean {
    return instanceId === this.instanceId;
  }

  /** The innermost hold around the caller, of that key or of any. */
  current(key?: string): Lock | undefined {
    return heldAround((lock) => this.isOurs(lock) && (key === undefined || lock.key === key));
  }

  /** Lets running holds finish for at most `graceMs`, refuses everybody else, then ends what is still held. */
  async close(graceMs: number): Promise<void> {
    if (this.phase !== 'open') return;
    this.phase = 'draining';
    this.gates.refuseOutsiders();
    if (this.watchdog.size > 0) await this.grace(graceMs);
    this.phase = 'closed';
    // Waiters first: the end of a grant must not let the next one in.
    this.gates.close();
    for (const grant of this.watchdog.grants()) this.abandon(grant);
    await this.releaser.drain();
    this.watchdog.close();
    this.releaser.close();
    this.clock.close();
    this.stopListening();
  }

  get state(): EngineState {
    return this.phase;
  }

  now(): number {
    return this.clock.now();
  }

  nextOwner(gate?: Gate): string {
    this.asks += 1;
    const owner = `${this.instanceId}:${this.asks}`;
    return gate === undefined ? owner : this.gates.asking(gate, owner);
  }

  granted(grant: Grant): void {
    this.watchdog.watch(grant);
  }

  forget(gate: Gate): void {
    this.gates.forget(gate);
  }

  release(grant: Grant): Promise<boolean> {
    grant.end();
    this.ended(grant);
    this.events.released(grant, this.clock);
    return grant.giver.end(grant);
  }

  async extend(grant: Grant, ttlMs: number): Promise<void> {
    this.parts.checkTtl(ttlMs);
    grant.ttlMs = ttlMs;
    const reply = await inTime(
      this.clock,
      this.requestTimeoutMs,
      this.watchdog.renew(grant),
      (): ExtendReply => 'unknown',
    );
    if (grant.loss !== undefined) throw grant.loss;
    if (reply === 'renewed') return;
    throw notExtended(grant.resource, reply);
  }

  expire(grant: Grant): void {
    this.lost(grant, 'its lease ran out');
  }

  extended(grant: Grant): void {
    this.events.extended(grant);
  }

  lost(grant: Grant, why: string, cause?: unknown): void {
    runOutside(() => this.takeLoss(grant, why, cause));
  }

  private takeLoss(grant: Grant, why: string, cause: unknown): void {
    const now = this.clock.now();
    const error = grant.lose(why, now, cause);
    if (error === undefined) return;
    this.ended(grant);
    // Whether it is still there or not: what nobody holds must not stay closed. A failure is repeated by the releaser.
    grant.giver.end(grant, this.closedUntil(grant, now)).catch(() => undefined);
    this.parts.warn(error.message);
    this.events.lost(grant, this.clock);
  }

  /** Its work may still be under way: counted from when it had to end. */
  private closedUntil({ deadline }: Grant, now: number): number {
    const { lockDelayMs } = this.parts;
    return lockDelayMs > 0 ? Math.min(now, deadline) + lockDelayMs : 0;
  }

  private isOurs(lock: Lock): boolean {
    return lock.isKeptBy(this);
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
  private abandon(grant: Grant): void {
    this.lost(grant, 'the application is shutting down', closed(grant.resource));
  }
}
