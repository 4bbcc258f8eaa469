import type { Target } from './acquire-options.js';
import { LocalLock, type LocalLockDeps } from './local-lock.js';
import type { Grant } from '../lease/grant.js';
import { MultiAcquire, type Obstacle } from './multi-acquire.js';
import type { Handoff, KeyFilter, LockMode, StoreListener } from '../store/lock-store.js';
import { closed } from './acquire-errors.js';
import type { WaitOptions } from './waiters.js';

const NOBODY: ReadonlySet<LocalLock> = new Set();

/**
 * The gates of the keys that are in use in one module instance: one for all who want a key alone, and one for each who shares
 * it, or has it together with other keys, so that each of those is granted, and lost, by itself.
 */
export class LocalLocks implements Pick<StoreListener, 'onHandoff' | 'onReleased' | 'onSubscribed' | 'onDisconnected'> {
  private readonly alone = new Map<string, LocalLock>();
  private readonly shared = new Map<string, Set<LocalLock>>();
  /** Of those who share: the owner that each has asked with last, and who that is. */
  private readonly owners = new Map<LocalLock, string>();
  private readonly byOwner = new Map<string, LocalLock>();
  /** Of what was asked for together: nobody waits there. */
  private readonly adopted = new Set<LocalLock>();
  private readonly asks = new Set<MultiAcquire>();

  constructor(private readonly keeper: LocalLockDeps) {}

  /** Waits for the lock; see {@link LocalLock.acquire}. */
  acquire({ resource, key }: Target, terms: WaitOptions, now: number, nested: boolean): Promise<Grant> {
    return this.open(key, terms.mode).acquire(resource, terms, now, nested);
  }

  /** That owner is the gate's, and the one it had before no more. Answers it. */
  register(gate: LocalLock, owner: string): string {
    if (gate.mode === 'exclusive') return owner;
    this.disown(gate);
    this.owners.set(gate, owner);
    this.byOwner.set(owner, gate);
    return owner;
  }

  /** Whether somebody here has one of the keys for itself, or wants that. */
  wanted(targets: readonly Target[]): boolean {
    return targets.some(({ key }) => this.alone.has(key));
  }

  /** Asks for all of them at once, without waiting for others; see {@link MultiAcquire.send}. */
  async acquireTogether(
    targets: readonly Target[],
    terms: WaitOptions,
    nested: boolean,
  ): Promise<readonly Grant[] | Obstacle> {
    const ask = new MultiAcquire(targets, terms, nested, this.keeper, (given, now) =>
      targets.map(({ resource, key }) => this.adopt(key, terms.mode).adopt(resource, terms, given, now)),
    );
    this.asks.add(ask);
    try {
      return await ask.send();
    } finally {
      this.asks.delete(ask);
    }
  }

  forget(gate: LocalLock): void {
    if (this.adopted.delete(gate)) return;
    const { key, mode } = gate;
    if (mode === 'exclusive') {
      if (this.alone.get(key) === gate) this.alone.delete(key);
      return;
    }
    this.disown(gate);
    const sharers = this.shared.get(key);
    if (sharers?.delete(gate) && sharers.size === 0) this.shared.delete(key);
  }

  onHandoff(handoff: Handoff): void {
    const { owner, mode, leaseMs } = handoff;
    const [key] = handoff.keys;
    const gate = this.of(key, mode, owner);
    if (gate !== undefined) return gate.onHandoff(handoff);
    // Whoever waited here has left: the lock must not stay with nobody.
    this.keeper.releaser.releaseBehind({ resource: key, key, owner, mode, leaseMs, keepUntil: 0 });
  }

  onReleased(key: string): void {
    for (const gate of this.at(key)) gate.retryNow();
  }

  onSubscribed(concerns?: KeyFilter): void {
    for (const gate of this.all(concerns)) gate.retryNow();
  }

  onDisconnected(concerns?: KeyFilter): void {
    for (const gate of this.all(concerns)) gate.onDisconnected();
    for (const ask of this.asks) if (concerns?.(ask.key) !== false) ask.disconnected();
  }

  /** Refuses everybody who does not wait inside a hold of this instance. */
  refuseOutsiders(): void {
    for (const gate of this.all()) gate.refuseOutsiders();
    for (const ask of this.asks) if (!ask.nested) ask.refuse(closed(ask.resource));
  }

  /** Refuses everybody, and sets no timer any more. */
  close(): void {
    for (const gate of [...this.all(), ...this.adopted]) gate.close();
    for (const ask of this.asks) ask.refuse(closed(ask.resource));
  }

  private adopt(key: string, mode: LockMode): LocalLock {
    const gate = new LocalLock(key, mode, this.keeper);
    this.adopted.add(gate);
    return gate;
  }

  /** The key's gate for those who want it alone, or a new one for whoever shares it. */
  private open(key: string, mode: LockMode): LocalLock {
    const known = mode === 'exclusive' ? this.alone.get(key) : undefined;
    if (known !== undefined) return known;
    const gate = new LocalLock(key, mode, this.keeper);
    if (mode === 'exclusive') this.alone.set(key, gate);
    else this.shared.set(key, (this.shared.get(key) ?? new Set()).add(gate));
    return gate;
  }

  /** Where that owner holds the lock, or waits for it. All who want it alone stand before one gate, whichever owner it has. */
  private of(key: string, mode: LockMode, owner: string): LocalLock | undefined {
    return mode === 'exclusive' ? this.alone.get(key) : this.byOwner.get(owner);
  }

  private disown(gate: LocalLock): void {
    const owner = this.owners.get(gate);
    if (owner === undefined) return;
    this.owners.delete(gate);
    this.byOwner.delete(owner);
  }

  private *at(key: string): Generator<LocalLock> {
    const gate = this.alone.get(key);
    if (gate !== undefined) yield gate;
    yield* this.shared.get(key) ?? NOBODY;
  }

  private *all(concerns: KeyFilter = () => true): Generator<LocalLock> {
    for (const [key, gate] of this.alone) if (concerns(key)) yield gate;
    for (const [key, gates] of this.shared) if (concerns(key)) yield* gates;
  }
}
