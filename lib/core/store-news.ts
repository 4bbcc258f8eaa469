import type { Gates } from './gates.js';
import type { HandOff, KeyFilter, StoreListener } from './lock-store.js';
import type { StoreHealth } from './store-health.js';
import type { Watchdog } from './watchdog.js';

/** Passes on what the store tells to whom it concerns. */
export class StoreNews implements StoreListener {
  constructor(
    readonly instanceId: string,
    private readonly gates: Gates,
    private readonly watchdog: Watchdog,
    private readonly health: StoreHealth,
    private readonly warn: (message: string) => void,
  ) {}

  handedOver(handOff: HandOff): void {
    this.gates.handedOver(handOff);
  }

  freed(key: string): void {
    this.gates.freed(key);
  }

  listening(concerns?: KeyFilter): void {
    this.gates.listening(concerns);
  }

  disconnected(concerns?: KeyFilter): void {
    this.gates.disconnected(concerns);
    this.watchdog.disconnected(concerns);
  }

  degraded(message: string): void {
    this.warn(message);
  }

  unreachable(error: Error, server?: string): void {
    this.health.unreachable(error, server);
  }

  reachable(server?: string): void {
    this.health.reachable(server);
  }
}
