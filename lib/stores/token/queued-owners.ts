/** Twice as long as the scripts keep a queue without requests. The second half allows for requests on their way. */
const MAX_AGE_MS = 2 * 60_000;

interface Entry {
  readonly key: string;
  readonly addedAt: number;
}

/**
 * The owners that may be in a queue, and the key of each. An owner is kept from its acquire request until its release
 * has been answered. If there is no release, it is dropped once the queue has expired.
 */
export class QueuedOwners {
  /** In the order of their last acquire requests. */
  private readonly entries = new Map<string, Entry>();

  /** How many owners there are. */
  get size(): number {
    return this.entries.size;
  }

  add(owner: string, key: string, now: number): void {
    this.entries.delete(owner);
    this.entries.set(owner, { key, addedAt: now });
    for (const [oldest, { addedAt }] of this.entries) {
      if (now - addedAt < MAX_AGE_MS) break;
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
