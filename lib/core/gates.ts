import type { Target } from './engine-terms.js';
import { Gate, type GateKeeper } from './gate.js';
import type { Grant } from './grant.js';
import { JointAsk, type Obstacle } from './joint-ask.js';
import type { HandOff, KeyFilter, LockMode, StoreListener } from './lock-store.js';
import { closed } from './refusal.js';
import type { AcquireTerms } from './waiter.js';

const NOBODY: ReadonlySet<Gate> = new Set();

/**
 * The gates of the keys that are in use in one module instance: one for all who want a key alone, and one for each who shares
 * it, or has it together with other keys, so that each of those is granted, and lost, by itself.
 */
export class Gates implements Pick<StoreListener, 'handedOver' | 'freed' | 'listening' | 'disconnected'> {
  private readonly alone = new Map<string, Gate>();
  private readonly shared = new Map<string, Set<Gate>>();
  /** Of those who share: the owner that each has asked with last, and who that is. */
  private readonly owners = new Map<Gate, string>();
  private readonly byOwner = new Map<string, Gate>();
  /** Of what was asked for together: nobody waits there. */
  private readonly adopted = new Set<Gate>();
  private readonly asks = new Set<JointAsk>();

  constructor(private readonly keeper: GateKeeper) {}

  /** Waits for the lock; see {@link Gate.enter}. */
  enter({ resource, key }: Target, terms: AcquireTerms, now: number, nested: boolean): Promise<Grant> {
    return this.open(key, terms.mode).enter(resource, terms, now, nested);
  }

  /** That owner is the gate's, and the one it had before no more. Answers it. */
  asking(gate: Gate, owner: string): string {
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

  /** Asks for all of them at once, without waiting for others; see {@link JointAsk.send}. */
  async enterTogether(
    targets: readonly Target[],
    terms: AcquireTerms,
    nested: boolean,
  ): Promise<readonly Grant[] | Obstacle> {
    const ask = new JointAsk(targets, terms, nested, this.keeper, (given, now) =>
      targets.map(({ resource, key }) => this.adopt(key, terms.mode).adopt(resource, terms, given, now)),
    );
    this.asks.add(ask);
    try {
      return await ask.send();
    } finally {
      this.asks.delete(ask);
    }
  }

  forget(gate: Gate): void {
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

  handedOver(handOff: HandOff): void {
    const { owner, mode, leaseMs } = handOff;
    const [key] = handOff.keys;
    const gate = this.of(key, mode, owner);
    if (gate !== undefined) return gate.handedOver(handOff);
    // Whoever waited here has left: the lock must not stay with nobody.
    this.keeper.releaser.releaseBehind({ resource: key, key, owner, mode, leaseMs, keepUntil: 0 });
  }

  freed(key: string): void {
    for (const gate of this.at(key)) gate.askAgain();
  }

  listening(concerns?: KeyFilter): void {
    for (const gate of this.all(concerns)) gate.askAgain();
  }

  disconnected(concerns?: KeyFilter): void {
    for (const gate of this.all(concerns)) gate.disconnected();
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

  private adopt(key: string, mode: LockMode): Gate {
    const gate = new Gate(key, mode, this.keeper);
    this.adopted.add(gate);
    return gate;
  }

  /** The key's gate for those who want it alone, or a new one for whoever shares it. */
  private open(key: string, mode: LockMode): Gate {
    const known = mode === 'exclusive' ? this.alone.get(key) : undefined;
    if (known !== undefined) return known;
    const gate = new Gate(key, mode, this.keeper);
    if (mode === 'exclusive') this.alone.set(key, gate);
    else this.shared.set(key, (this.shared.get(key) ?? new Set()).add(gate));
    return gate;
  }

  /** Where that owner holds the lock, or waits for it. All who want it alone stand before one gate, whichever owner it has. */
  private of(key: string, mode: LockMode, owner: string): Gate | undefined {
    return mode === 'exclusive' ? this.alone.get(key) : this.byOwner.get(owner);
  }

  private disown(gate: Gate): void {
    const owner = this.owners.get(gate);
    if (owner === undefined) return;
    this.owners.delete(gate);
    this.byOwner.delete(owner);
  }

  private *at(key: string): Generator<Gate> {
    const gate = this.alone.get(key);
    if (gate !== undefined) yield gate;
    yield* this.shared.get(key) ?? NOBODY;
  }

  private *all(concerns: KeyFilter = () => true): Generator<Gate> {
    for (const [key, gate] of this.alone) if (concerns(key)) yield gate;
    for (const [key, gates] of this.shared) if (concerns(key)) yield* gates;
  }
}
