import type { LockOwnership } from '../../core/store/lock-store.js';

/** Twice as long as the scripts keep a queue without requests. The second half allows for requests on their way. */
const MAX_AGE_MS = 2 * 60_000;

interface Entry {
  readonly ownership: LockOwnership;
  readonly addedAt: number;
  /** Whether the last request was granted by its reply. The script has then removed the owner from the queue. */
  isGrantedByReply: boolean;
}

/**
 * The owners that may have been in a queue, with their keys and modes. An owner is kept from its acquire request until
 * its release has been answered. If there is no release, it is dropped once the queue has expired.
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
    this.entries.set(owner, { ownership, addedAt: now, isGrantedByReply: false });
    for (const [oldest, { addedAt }] of this.entries) {
      if (now - addedAt < MAX_AGE_MS) break;
      this.entries.delete(oldest);
    }
  }

  /** Records a reply that has granted the owner its lock. */
  onGranted(owner: string): void {
    const entry = this.entries.get(owner);
    if (entry !== undefined) entry.isGrantedByReply = true;
  }

  has(owner: string): boolean {
    return this.entries.has(owner);
  }

  /** Returns whether the owner may wait in a queue, or may have got its lock there. */
  mayWait(owner: string): boolean {
    return this.entries.get(owner)?.isGrantedByReply === false;
  }

  get(owner: string): LockOwnership | undefined {
    return this.entries.get(owner)?.ownership;
  }

  delete(owner: string): void {
    this.entries.delete(owner);
  }
}

/** Expired names are not dropped while there are at most this many names. */
const FEWEST_BEFORE_DROP = 128;

/** Names, each of which is kept until its own moment. */
export class RecentNames {
  /** The moment from which each name is no longer kept. */
  private readonly keptUntil = new Map<string, number>();
  /** How many names there may be before the expired ones are dropped. */
  private limit = FEWEST_BEFORE_DROP;

  /** How many names there are, including expired ones. @internal For tests. */
  get size(): number {
    return this.keptUntil.size;
  }

  add(name: string, now: number, forMs: number): void {
    this.keptUntil.set(name, now + forMs);
    if (this.keptUntil.size > this.limit) this.dropOver(now);
  }

  has(name: string, now: number): boolean {
    return now < (this.keptUntil.get(name) ?? 0);
  }

  /** Looks at no more than about two names for each one added, because the limit is at least twice what is left. */
  private dropOver(now: number): void {
    for (const [name, until] of this.keptUntil) if (now >= until) this.keptUntil.delete(name);
    this.limit = Math.max(FEWEST_BEFORE_DROP, this.keptUntil.size * 2);
  }
}
