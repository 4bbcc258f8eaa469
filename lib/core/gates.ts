import { Gate, type GateKeeper } from './gate.js';
import type { HandOff, KeyFilter, StoreListener } from './lock-store.js';

const everyKey: KeyFilter = () => true;

/** The gates of the keys that are in use in one module instance. */
export class Gates implements Pick<StoreListener, 'handedOver' | 'freed' | 'listening' | 'disconnected'> {
  private readonly byKey = new Map<string, Gate>();

  constructor(private readonly keeper: GateKeeper) {}

  /** The key's gate, made if need be. */
  of(key: string): Gate {
    const known = this.byKey.get(key);
    if (known !== undefined) return known;
    const gate = new Gate(key, this.keeper);
    this.byKey.set(key, gate);
    return gate;
  }

  /** The key's gate, if it is in use. */
  find(key: string): Gate | undefined {
    return this.byKey.get(key);
  }

  forget(gate: Gate): void {
    if (this.byKey.get(gate.key) === gate) this.byKey.delete(gate.key);
  }

  handedOver(handOff: HandOff): void {
    const [key] = handOff.keys;
    const gate = this.byKey.get(key);
    if (gate !== undefined) return gate.handedOver(handOff);
    // Whoever waited here has left: the lock must not stay with nobody.
    const { owner, leaseMs } = handOff;
    this.keeper.releaser.releaseBehind({ resource: key, key, owner, leaseMs, keepUntil: 0 });
  }

  freed(key: string): void {
    this.byKey.get(key)?.askAgain();
  }

  listening(concerns: KeyFilter = everyKey): void {
    for (const gate of this.byKey.values()) if (concerns(gate.key)) gate.askAgain();
  }

  disconnected(concerns: KeyFilter = everyKey): void {
    for (const gate of this.byKey.values()) if (concerns(gate.key)) gate.disconnected();
  }

  /** Refuses everybody who does not wait inside a hold of this instance. */
  refuseOutsiders(): void {
    for (const gate of this.byKey.values()) gate.refuseOutsiders();
  }

  /** Refuses everybody, and sets no timer any more. */
  close(): void {
    for (const gate of this.byKey.values()) gate.close();
  }
}
