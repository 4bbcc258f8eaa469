import type { LocalLocks } from './acquire/local-locks.js';
import type { Handoff, KeyFilter, StoreListener } from './store/lock-store.js';
import type { StoreHealth } from './store/store-health.js';
import type { Watchdog } from './lease/watchdog.js';

/** Passes on what the store tells to whom it concerns. */
export class StoreNews implements StoreListener {
  constructor(
    readonly instanceId: string,
    private readonly gates: LocalLocks,
    private readonly watchdog: Watchdog,
    private readonly health: StoreHealth,
    private readonly warn: (message: string) => void,
  ) {}

  onHandoff(handoff: Handoff): void {
    this.gates.onHandoff(handoff);
  }

  onReleased(key: string): void {
    this.gates.onReleased(key);
  }

  onSubscribed(concerns?: KeyFilter): void {
    this.gates.onSubscribed(concerns);
  }

  onDisconnected(concerns?: KeyFilter): void {
    this.gates.onDisconnected(concerns);
    this.watchdog.onDisconnected(concerns);
  }

  onDegraded(message: string): void {
    this.warn(message);
  }

  onUnreachable(error: Error, server?: string): void {
    this.health.onUnreachable(error, server);
  }

  onReachable(server?: string): void {
    this.health.onReachable(server);
  }
}
