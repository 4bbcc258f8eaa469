import { runOutside } from '../../../core/context/async-context.js';
import type { Clock, Timer } from '../../../core/time/clock.js';

/**
 * Finds the holds of a module instance that last. Somebody may release them by force, so the instance receives messages
 * about them. Short holds cost no subscription.
 */
export class LongHolds {
  /** The keys by owner: those granted since the last look, and those before. */
  private recent = new Map<string, string>();
  private older = new Map<string, string>();
  private timer: Timer | undefined;
  /** The holds that are being reported. */
  private found = new Map<string, string>();

  /**
   * @param longMs a hold is found after this time, and before twice of it.
   * @param onFound called once for each hold, with its owner and its key.
   */
  constructor(
    private readonly clock: Clock,
    private readonly longMs: number,
    private readonly onFound: (owner: string, key: string) => void,
  ) {}

  onGranted(owner: string, key: string): void {
    this.recent.set(owner, key);
    this.timer ??= runOutside(() => this.arm());
  }

  onReleased(owner: string): void {
    if (!this.recent.delete(owner)) this.older.delete(owner);
  }

  /** Forgets the holds so far. Finds none of them. */
  clear(): void {
    this.timer?.cancel();
    this.timer = undefined;
    for (const holds of [this.recent, this.older, this.found]) holds.clear();
  }

  private arm(): Timer {
    return this.clock.schedule(this.longMs, () => this.look(), true);
  }

  private look(): void {
    this.timer = undefined;
    [this.found, this.older, this.recent] = [this.older, this.recent, this.found];
    if (this.older.size > 0) this.timer = this.arm();
    // Ends at a call of `clear`.
    for (const [owner, key] of this.found) {
      try {
        this.onFound(owner, key);
      } catch {
        // A client that cannot subscribe is reported when a caller waits.
      }
    }
    this.found.clear();
  }
}
