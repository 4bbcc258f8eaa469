import type { AcquireDeps } from './acquire-options.js';

/** Longer than the pauses of an instance that polls, so that it finds the lock free between two uses. */
const NOT_KEPT_MS = 1_000;

/** The keys that another instance has wanted a moment ago. They are not kept after a release. */
export class WantedKeys {
  /** In the order in which they were wanted. */
  private readonly recent = new Map<string, { readonly notKeptUntil: number }>();

  constructor(private readonly deps: Pick<AcquireDeps, 'clock'>) {}

  /** How many keys are remembered. @internal For tests. */
  get size(): number {
    return this.recent.size;
  }

  add(key: string): void {
    const now = this.deps.clock.now();
    this.dropOver(now);
    this.recent.delete(key);
    this.recent.set(key, { notKeptUntil: now + NOT_KEPT_MS });
  }

  has(key: string): boolean {
    if (this.recent.size === 0) return false;
    this.dropOver(this.deps.clock.now());
    return this.recent.has(key);
  }

  private dropOver(now: number): void {
    for (const [oldest, { notKeptUntil }] of this.recent) {
      if (now < notKeptUntil) break;
      this.recent.delete(oldest);
    }
  }
}
