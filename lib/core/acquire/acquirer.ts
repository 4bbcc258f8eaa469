import type { LockEvents } from '../diagnostics.js';
import type { AcquireOptions, Target } from './acquire-options.js';
import { LockReentryError } from '../errors.js';
import type { LocalLocks } from './local-locks.js';
import type { Grant } from '../lease/grant.js';
import { heldAround } from '../hold/held-locks.js';
import { Lock, type LockKeeper } from '../hold/lock.js';
import { kindOf, modesOf } from '../store/lock-mode.js';
import type { StoreCapabilities } from '../store/lock-store.js';
import { inLockOrder } from './lock-order.js';
import { MultiLock } from '../hold/multi-lock.js';
import { closed, unsupportedMode, type LastReply, upgradeRefused, acquireError } from './acquire-errors.js';

/** `draining`: running holds may finish; `closed`: nobody gets a lock any more. */
export type EngineState = 'open' | 'draining' | 'closed';

/** What an acquirer needs of its engine. */
export interface AcquirerDeps extends LockKeeper {
  readonly state: EngineState;
  readonly store: { readonly capabilities: StoreCapabilities };
}

/** One caller, on the way to the gates. */
interface AcquireCall {
  readonly terms: AcquireOptions;
  readonly askedAt: number;
  /** The caller runs in a hold of this engine. */
  readonly nested: boolean;
}

/** The way that a caller's request takes: to the hold that the caller runs in, or to the gates. */
export class Acquirer {
  constructor(
    private readonly engine: AcquirerDeps,
    private readonly gates: LocalLocks,
    private readonly events: LockEvents,
  ) {}

  /** Waits for the lock, or joins the hold that the caller runs in. */
  async acquire(target: Target, terms: AcquireOptions): Promise<Lock> {
    terms.signal?.throwIfAborted();
    if (terms.mode !== 'exclusive') this.checkMode(target, terms);
    const outer = this.outerHold(target.key);
    if (outer !== undefined) return this.nest(outer, terms);
    const nested = this.checkOpen(target);
    const askedAt = this.engine.now();
    this.events.requested(target);
    try {
      const grant = await this.gates.acquire(target, terms, askedAt, nested);
      this.events.granted(grant, grant.grantedAt - askedAt);
      return new Lock(grant, this.engine);
    } catch (reason) {
      this.events.refused(target, this.engine.now() - askedAt, reason);
      throw reason;
    }
  }

  /**
   * Waits for several, one `waitMs` for all, or joins the holds that the caller runs in. Keeps none if one could not be had, or was
   * lost while another was waited for.
   */
  async acquireAll(targets: readonly Target[], terms: AcquireOptions): Promise<MultiLock> {
    terms.signal?.throwIfAborted();
    this.checkMode(targets[0], terms);
    const locks = new Map<string, Lock>();
    const leaving = new AbortController();
    const leave = (): void => leaving.abort(terms.signal?.reason);
    const take = (lock: Lock): void => {
      locks.set(lock.key, lock);
      // Whoever waits for others without it waits in vain.
      lock.signal.addEventListener('abort', () => leaving.abort(lock.signal.reason), { once: true });
    };
    terms.signal?.addEventListener('abort', leave, { once: true });
    try {
      for (const { key } of targets) {
        const outer = locks.has(key) ? undefined : this.outerHold(key);
        if (outer !== undefined) take(this.nest(outer, terms));
      }
      const others = targets.filter(({ key }) => !locks.has(key));
      if (others.length > 0) await this.enterAll(others, { ...terms, signal: leaving.signal }, take);
      for (const lock of locks.values()) lock.assertHeld();
    } catch (reason) {
      for (const lock of locks.values()) {
        lock.skipMinHold();
        void lock.release();
      }
      throw reason;
    } finally {
      terms.signal?.removeEventListener('abort', leave);
    }
    return new MultiLock(new Map(targets.map(({ resource, key }) => [resource, locks.get(key) as Lock])));
  }

  private async enterAll(
    targets: readonly Target[],
    terms: AcquireOptions,
    taken: (lock: Lock) => void,
  ): Promise<void> {
    const entry = { terms, nested: this.checkOpen(targets[0]), askedAt: this.engine.now() };
    const { maxKeys = 1 } = this.engine.store.capabilities;
    const groups = inLockOrder(targets, maxKeys);
    const waiting = new Map(groups.flat().map((target) => [target.key, target]));
    for (const target of waiting.values()) this.events.requested(target);
    try {
      for (const group of groups) {
        await this.enterGroup(group, entry, (grant) => {
          waiting.delete(grant.key);
          this.events.granted(grant, grant.grantedAt - entry.askedAt);
          taken(new Lock(grant, this.engine));
        });
      }
    } catch (reason) {
      for (const target of waiting.values()) this.events.refused(target, this.engine.now() - entry.askedAt, reason);
      throw reason;
    }
  }

  /** All at once; where that cannot be, one after the other. */
  private async enterGroup(group: readonly Target[], entry: AcquireCall, taken: (grant: Grant) => void): Promise<void> {
    const { terms, askedAt, nested } = entry;
    // Whoever would have to wait behind others here need not ask whether there is anything to wait for.
    if (group.length > 1 && (terms.waitMs === 0 || !this.gates.wanted(group))) {
      this.checkStill(group[0], entry);
      const outcome = await this.gates.acquireTogether(group, terms, nested);
      if (!('reply' in outcome)) return outcome.forEach(taken);
      const { reply, target } = outcome;
      const { mode, waitMs } = terms;
      const now = this.engine.now();
      if (now >= askedAt + waitMs && isFinal(reply))
        throw acquireError(reply, { ...target, mode, waitMs, enteredAt: askedAt, now });
    }
    for (const target of group) {
      this.checkStill(target, entry);
      taken(await this.gates.acquire(target, terms, askedAt, nested));
    }
  }

  private checkMode({ resource }: Target, { mode }: AcquireOptions): void {
    const { capabilities } = this.engine.store;
    if (!modesOf(capabilities).includes(kindOf(mode))) throw unsupportedMode(resource, mode, capabilities);
  }

  /** Answers whether the caller runs in a hold of this engine: shutting down lets it through, so that the hold can finish. */
  private checkOpen({ resource }: Target): boolean {
    const nested = heldAround((lock) => lock.isKeptBy(this.engine)) !== undefined;
    this.admit(resource, nested);
    return nested;
  }

  /** Between two steps of one caller, when nobody could tell it, it may have lost interest, or shutting down may have begun. */
  private checkStill({ resource }: Target, { terms, nested }: AcquireCall): void {
    terms.signal?.throwIfAborted();
    this.admit(resource, nested);
  }

  private admit(resource: string, nested: boolean): void {
    const { state } = this.engine;
    if (state === 'closed' || (state === 'draining' && !nested)) throw closed(resource);
  }

  /** The innermost hold of that key around the caller. */
  private outerHold(key: string): Lock | undefined {
    return heldAround((lock) => lock.key === key && lock.isKeptBy(this.engine));
  }

  private nest(outer: Lock, { reentrant, mode }: AcquireOptions): Lock {
    outer.assertHeld();
    const held = outer.shared.mode;
    if (held !== 'exclusive' && held !== mode) throw upgradeRefused(outer.resource, held, mode);
    if (reentrant) return new Lock(outer.shared, this.engine);
    const message = `${outer.resource} is held by the caller itself already, and reentrancy is off.`;
    throw new LockReentryError(message, { resource: outer.resource });
  }
}

/** Whether asking for one after the other would bring nothing else, without time to wait. */
function isFinal(word: LastReply): boolean {
  // The store may not take several at once.
  if (word.kind === 'failed') return !word.error.permanent;
  // Others wait for what is free: only whoever asks for it alone finds out that they have died.
  return word.kind !== 'held' || word.until !== undefined;
}
