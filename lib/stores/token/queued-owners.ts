/** As long as the scripts keep a queue that nobody asks about; and once more, for what is on its way. */
const KEPT_MS = 2 * 60_000;

interface Entry {
  readonly key: string;
  readonly askedAt: number;
}

/**
 * The owners that may stand in a queue, and for which key: from their ask until their release is answered, or until the queue
 * has forgotten them, where a release never was.
 */
export class QueuedOwners {
  /** In the order of their last asks. */
  private readonly entries = new Map<string, Entry>();

  /** How many there are. */
  get size(): number {
    return this.entries.size;
  }

  add(owner: string, key: string, now: number): void {
    this.entries.delete(owner);
    this.entries.set(owner, { key, askedAt: now });
    for (const [oldest, { askedAt }] of this.entries) {
      if (now - askedAt < KEPT_MS) break;
      this.entries.delete(oldest);
    }
  }

  has(owner: string): boolean {
    return this.entries.has(owner);
  }

  keyOf(owner: string): string | undefined {
    return this.entries.get(owner)?.key;
  }

  delete(owner: string): void {
    this.entries.delete(owner);
  }
}
