import { runOutside } from '../../../core/async-context.js';
import type { Clock, Timer } from '../../../core/time/clock.js';

/** A hold that lasts for longer is long, at twice that at the latest. In milliseconds. */
const LONG_MS = 25;

/**
 * Finds the first long hold of a module instance. From then on the instance receives messages about its locks: somebody
 * may release them by force. Short holds cost no subscription.
 */
export class FirstLongHold {
  /** The keys by owner: those granted since the last look, and those before. Undefined once a long hold was found. */
  private recent: Map<string, string> | undefined = new Map();
  private older = new Map<string, string>();
  private timer: Timer | undefined;

  /** @param onFound is called once, with the key of the lock. */
  constructor(
    private readonly clock: Clock,
    private readonly onFound: (key: string) => void,
  ) {}

  onGranted(owner: string, key: string): void {
    if (this.recent === undefined) return;
    this.recent.set(owner, key);
    this.timer ??= runOutside(() => this.clock.schedule(LONG_MS, () => this.look(), true));
  }

  onReleased(owner: string): void {
    if (this.recent === undefined) return;
    if (!this.recent.delete(owner)) this.older.delete(owner);
  }

  close(): void {
    this.timer?.cancel();
    this.recent = undefined;
    this.older.clear();
  }

  private look(): void {
    this.timer = undefined;
    const { recent, older } = this;
    if (recent === undefined) return;
    const [key] = older.values();
    if (key !== undefined) {
      this.close();
      return this.onFound(key);
    }
    if (recent.size === 0) return;
    [this.recent, this.older] = [older, recent];
    this.timer = this.clock.schedule(LONG_MS, () => this.look(), true);
  }
}
