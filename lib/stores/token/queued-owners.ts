import type { LockOwnership } from '../../core/store/lock-store.js';

/** Twice as long as the scripts keep a queue without requests. The second half allows for requests on their way. */
const MAX_AGE_MS = 2 * 60_000;

interface Entry {
  readonly ownership: LockOwnership;
  readonly addedAt: number;
}

/**
 * The owners that may be in a queue, with key and mode of each. An owner is kept from its acquire request until its
 * release has been answered. If there is no release, it is dropped once the queue has expired.
 */
export class QueuedOwners {
  /** In the order of their last acquire requests. */
  private readonly entries = new Map<string, Entry>();

  /** How many owners there are. */
  get size(): number {
    return this.entries.size;
  }

  add(ownership: LockOwnership, now: number): void {
    const { owner } = ownership;
    this.entries.delete(owner);
    this.entries.set(owner, { ownership, addedAt: now });
    for (const [oldest, { addedAt }] of this.entries) {
      if (now - addedAt < MAX_AGE_MS) break;
      this.entries.delete(oldest);
    }
  }

  has(owner: string): boolean {
    return this.entries.has(owner);
  }

  get(owner: string): LockOwnership | undefined {
    return this.entries.get(owner)?.ownership;
  }

  delete(owner: string): void {
    this.entries.delete(owner);
  }
}

/** The owners whose locks stay closed for a while after their release. */
export class ClosingOwners {
  /** When the lock of each is open, in the order of the releases. */
  private readonly openAt = new Map<string, number>();

  add(owner: string, now: number, keepMs: number): void {
    this.openAt.delete(owner);
    this.openAt.set(owner, now + keepMs);
    for (const [oldest, openAt] of this.openAt) {
      if (now < openAt) break;
      this.openAt.delete(oldest);
    }
  }

  has(owner: string, now: number): boolean {
    return now < (this.openAt.get(owner) ?? 0);
  }
}
