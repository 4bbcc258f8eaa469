import type { AcquireDeps } from './acquire-options.js';

/** Longer than the pauses of an instance that polls, so that it finds the lock free between two uses. */
const NOT_KEPT_MS = 1_000;

/** The keys that another instance has wanted a moment ago. They are not kept after a release. */
export class WantedKeys {
  /** Until when each key is not kept, in the order in which they were wanted. */
  private readonly notKeptUntil = new Map<string, number>();

  constructor(private readonly deps: Pick<AcquireDeps, 'clock'>) {}

  /** How many keys are remembered. @internal For tests. */
  get size(): number {
    return this.notKeptUntil.size;
  }

  add(key: string): void {
    const now = this.deps.clock.now();
    this.dropOver(now);
    this.notKeptUntil.delete(key);
    this.notKeptUntil.set(key, now + NOT_KEPT_MS);
  }

  has(key: string): boolean {
    if (this.notKeptUntil.size === 0) return false;
    this.dropOver(this.deps.clock.now());
    return this.notKeptUntil.has(key);
  }

  private dropOver(now: number): void {
    for (const [oldest, until] of this.notKeptUntil) {
      if (now < until) break;
      this.notKeptUntil.delete(oldest);
    }
  }
}
