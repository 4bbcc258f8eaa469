import { randomBytes } from 'node:crypto';
import { Acquirer, type EngineState } from './acquire/acquirer.js';
import { withTimeout } from './time/clock.js';
import { DelayedStore } from './store/delayed-store.js';
import { LockEvents } from './diagnostics.js';
import type { EngineDeps, AcquireOptions, Target } from './acquire/acquire-options.js';
import type { LocalLock, LocalLockDeps } from './acquire/local-lock.js';
import { LocalLocks } from './acquire/local-locks.js';
import type { Grant } from './lease/grant.js';
import { runOutside } from './async-context.js';
import { heldAround } from './hold/held-locks.js';
import { Lock, type LockKeeper } from './hold/lock.js';
import type { ExtendReply, LockState, LockStore } from './store/lock-store.js';
import type { MultiLock } from './hold/multi-lock.js';
import { TimeoutPool } from './time/timeout-pool.js';
import { closed, notExtended, unavailable } from './acquire/acquire-errors.js';
import { Releaser } from './lease/releaser.js';
import { StoreHealth } from './store/store-health.js';
import { StoreNews } from './store-news.js';
import type { PassingLimits } from './acquire/local-handoff.js';
import { Watchdog, type WatchdogEvents } from './lease/watchdog.js';

/**
 * One module instance's locks: a gate for each key in use, one watchdog, one releaser, and the way a caller's request
 * takes through them. There is no other way to a lock.
 */
export class LockEngine implements LocalLockDeps, LockKeeper, WatchdogEvents {
  readonly store: LockStore;
  readonly clock: TimeoutPool;
  readonly releaser: Releaser;
  readonly health: StoreHealth;
  readonly requestTimeoutMs: number;
  readonly passing: PassingLimits;

  /** Random, so that no two instances and no two starts of one ever share an owner. */
  readonly instanceId = randomBytes(12).toString('base64url');
  private attempts = 0;
  private readonly localLocks = new LocalLocks(this);
  private readonly acquirer: Acquirer;
  readonly watchdog: Watchdog;
  private readonly events: LockEvents;
  private readonly stopListening: () => void;
  private phase: EngineState = 'open';
  private drained: (() => void) | undefined;

  constructor(private readonly deps: EngineDeps) {
    this.store = deps.lockDelayMs > 0 ? new DelayedStore(deps.store, deps.lockDelayMs) : deps.store;
    this.clock = new TimeoutPool(deps.clock, deps.requestTimeoutMs);
    this.requestTimeoutMs = deps.requestTimeoutMs;
    this.passing = deps.passing;
    const warn = (message: string): void => deps.warn(message);
    this.health = new StoreHealth(warn, (key) => this.store.serverOf?.(key));
    this.events = new LockEvents(deps.instance);
    this.acquirer = new Acquirer(this, this.localLocks, this.events);
    this.releaser = new Releaser(this.store, this.clock, this.requestTimeoutMs, this.passing, deps.lockDelayMs);
    this.watchdog = new Watchdog(this.store, this.clock, this);
    this.stopListening = this.store.listen(
      new StoreNews(this.instanceId, this.localLocks, this.watchdog, this.health, warn),
    );
  }

  /** See {@link Acquirer.acquire}. */
  acquire(target: Target, terms: AcquireOptions): Promise<Lock> {
    return this.acquirer.acquire(target, terms);
  }

  /** See {@link Acquirer.acquireAll}. */
  acquireAll(targets: readonly Target[], terms: AcquireOptions): Promise<MultiLock> {
    return this.acquirer.acquireAll(targets, terms);
  }

  inspect(key: string): Promise<LockState | null> {
    return withTimeout(this.clock, this.requestTimeoutMs, this.store.inspect(key), () => {
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
    this.localLocks.refuseOutsiders();
    if (this.watchdog.size > 0) await this.grace(graceMs);
    this.phase = 'closed';
    // Waiters first: the end of a grant must not let the next one in.
    this.localLocks.close();
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

  nextOwner(gate?: LocalLock): string {
    this.attempts += 1;
    const owner = `${this.instanceId}:${this.attempts}`;
    return gate === undefined ? owner : this.localLocks.register(gate, owner);
  }

  granted(grant: Grant): void {
    this.watchdog.watch(grant);
  }

  forget(gate: LocalLock): void {
    this.localLocks.forget(gate);
  }

  release(grant: Grant): Promise<boolean> {
    grant.end();
    this.ended(grant);
    this.events.released(grant, this.clock);
    return grant.ender.end(grant);
  }

  async extend(grant: Grant, ttlMs: number): Promise<void> {
    this.deps.checkTtl(ttlMs);
    grant.ttlMs = ttlMs;
    const reply = await withTimeout(
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
    grant.ender.end(grant, this.closedUntil(grant, now)).catch(() => undefined);
    this.deps.warn(error.message);
    this.events.lost(grant, this.clock);
  }

  /** Its work may still be under way: counted from when it had to end. */
  private closedUntil({ deadline }: Grant, now: number): number {
    const { lockDelayMs } = this.deps;
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
