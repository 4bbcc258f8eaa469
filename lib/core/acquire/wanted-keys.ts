import type { AcquireDeps } from './acquire-options.js';

/** Longer than the pauses of an instance that polls, so that it finds the lock free between two uses. */
const NOT_KEPT_MS = 1_000;

/** The keys that another instance has wanted a moment ago. They are not kept after a release. */
export class WantedKeys {
  /** In the order in which they were wanted. */
  private readonly recent = new Map<string, { readonly notKeptUntil: number }>();

  constructor(private readonly deps: Pick<AcquireDeps, 'clock'>) {}

  add(key: string): void {
    const now = this.deps.clock.now();
    this.recent.delete(key);
    this.recent.set(key, { notKeptUntil: now + NOT_KEPT_MS });
    for (const [oldest, { notKeptUntil }] of this.recent) {
      if (now < notKeptUntil) break;
      this.recent.delete(oldest);
    }
  }

  has(key: string): boolean {
    const wanted = this.recent.get(key);
    return wanted !== undefined && this.deps.clock.now() < wanted.notKeptUntil;
  }
}
