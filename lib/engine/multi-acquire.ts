import { onAbort, throwIfAborted } from '../common/abort-signals.js';
import { LockTimeoutError, LockUnavailableError, nameCaller } from '../common/errors.js';
import type { Target } from '../events/call.js';
import { hashTag } from '../keys/resource-key.js';
import { heldAround } from './call-context.js';
import type { Lock } from './lock.js';
import type { LockEngine, Parts } from './lock-engine.js';
import { MultiLock } from './multi-lock.js';
import type { AcquireOptions } from './options.js';

/**
 * One call for several locks. It asks for all of them in one tick, without waiting for others. If one is held, it keeps
 * those before it in a global order, releases the others, waits for it, and goes on. A caller that waits thus holds
 * only locks before the one it waits for, so such callers cannot deadlock (resource ordering: Havender, "Avoiding
 * deadlock in multitasking systems", 1968).
 */
export class MultiAcquire {
  /** The locks that are kept, and nested holds of those that the caller runs in, by key. */
  private readonly locks = new Map<string, Lock>();
  /** What was requested and is not granted yet, by key. */
  private readonly missing = new Map<string, Target>();
  private readonly startedAt: number;
  /**
   * Aborts the wait with the caller's signal, and if a lock is lost, because waiting for the others is then useless.
   */
  private readonly waiting = new AbortController();

  constructor(
    private readonly engine: LockEngine,
    private readonly parts: Parts,
    private readonly options: AcquireOptions,
  ) {
    this.startedAt = parts.clock.now();
  }

  /**
   * Acquires all locks, or releases those that it has and throws.
   *
   * @throws LockLostError if one was lost while the caller waited for another.
   * @throws what acquiring one lock throws.
   */
  async run(targets: readonly Target[]): Promise<MultiLock> {
    const { engine, locks, missing, options, parts, startedAt } = this;
    const subscription = onAbort(options.signal, (reason) => this.waiting.abort(reason));
    try {
      this.request(targets);
      for (let rest = inLockOrder([...missing.values()]); rest.length > 0; rest = await this.acquireSome(rest));
      for (const lock of locks.values()) lock.assertHeld();
      return new MultiLock(new Map(targets.map(({ resource, key }) => [resource, locks.get(key) as Lock])));
    } catch (reason) {
      for (const lock of locks.values()) void lock.discard().catch(() => undefined);
      nameCaller(reason, options.signal);
      const waitedMs = parts.clock.now() - startedAt;
      for (const target of missing.values()) parts.events.refused(target, options, waitedMs, reason);
      parts.onEnded();
      return engine.rejectInTurn(reason);
    } finally {
      subscription.stop();
    }
  }

  /** Joins the holds that the caller runs in, and reports what it requests. */
  private request(targets: readonly Target[]): void {
    const { engine, locks, missing, options, parts } = this;
    const requested = new Map<string, Target>();
    for (const target of targets) {
      const { key } = target;
      if (locks.has(key) || requested.has(key)) continue;
      const outer = heldAround(parts, key);
      if (outer === undefined) requested.set(key, target);
      else this.hold(engine.nest(outer, options));
    }
    for (const target of requested.values()) engine.checkOpen(target);
    for (const [key, target] of requested) {
      parts.events.requested(target, options);
      missing.set(key, target);
    }
  }

  /** Acquires the first locks of the list, at least one. Returns the others. */
  private async acquireSome(targets: readonly Target[]): Promise<readonly Target[]> {
    const { signal } = this.waiting;
    throwIfAborted(signal);
    // A single lock is not held by another call for several.
    const isLast = targets.length === 1;
    const firstReplyMs = this.options.waitMs;
    const atOnce = { ...this.options, signal, ...(isLast ? {} : { waitMs: 0, firstReplyMs }) };
    const outcomes = await Promise.allSettled(targets.map((target) => this.acquireOne(target, atOnce)));
    const missing = outcomes.findIndex(({ status }) => status === 'rejected');
    const reason = missing === -1 ? undefined : (outcomes[missing] as PromiseRejectedResult).reason;
    const isOver = missing !== -1 && (isLast || !this.waitsAfter(reason));
    outcomes.forEach((outcome, i) => {
      if (outcome.status !== 'fulfilled') return;
      if (!isOver && (missing === -1 || i < missing)) this.keep(outcome.value, targets[i]);
      else {
        outcome.value.isUnseen = true;
        void outcome.value.discard().catch(() => undefined);
      }
    });
    if (isOver) throw reason;
    if (missing === -1) return [];
    this.keep(await this.acquireOne(targets[missing], { ...this.options, signal }), targets[missing]);
    return targets.slice(missing + 1);
  }

  private acquireOne(target: Target, options: AcquireOptions): Promise<Lock> {
    return this.engine.enqueue(target, options, this.parts.clock.now(), this.startedAt);
  }

  /** Whether the call goes on although one lock is not granted at once. */
  private waitsAfter(reason: unknown): boolean {
    const { waitMs, unavailableAfterMs = Infinity } = this.options;
    if (waitMs === 0) return false;
    if (reason instanceof LockTimeoutError) return !reason.isQueueFull;
    // The first request of a caller that does not wait for others decides, also about an outage.
    return reason instanceof LockUnavailableError && !reason.permanent && unavailableAfterMs === Infinity;
  }

  private hold(lock: Lock): void {
    this.locks.set(lock.key, lock);
    lock.onAbort((reason) => this.waiting.abort(reason));
  }

  private keep(lock: Lock, target: Target): void {
    this.missing.delete(target.key);
    this.hold(lock);
    this.engine.publishGrant(lock, target, this.options, this.startedAt);
  }
}

/** Returns keys in the order in which every process acquires several of them. */
function inLockOrder(targets: readonly Target[]): readonly Target[] {
  const tagged = targets.map((target) => ({ target, tag: hashTag(target.key) }));
  const sorted = tagged.toSorted((a, b) => compare(a.tag, b.tag) || compare(a.target.key, b.target.key));
  return sorted.map(({ target }) => target);
}

/** Compares by UTF-16 code units, so that the order is the same on every machine, whatever its locale. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
