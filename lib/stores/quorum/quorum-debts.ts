import type { LockMode } from '../../core/lock-store.js';

/** An end that a node has to hear of. */
export interface NodeRelease {
  readonly key: string;
  readonly mode: LockMode;
  /** The owner, alone or with the only round that is meant. */
  readonly owner: string;
  /** Keeps the lock closed until then; 0 ends it now. */
  readonly keepUntil: number;
  /** From then on its lease is over anyway. */
  readonly forgetAt: number;
}

/** More than this is not remembered: the oldest are left to their leases. */
const MOST_OWED = 10_000;

/** Releases that a node could not be told of, each once. */
export class Debts {
  private readonly owed = new Map<string, NodeRelease>();

  add(release: NodeRelease): void {
    this.owed.set(`${release.key} ${release.owner}`, release);
    if (this.owed.size <= MOST_OWED) return;
    const [oldest] = this.owed.keys();
    this.owed.delete(oldest);
  }

  /** All whose leases are not over yet; nothing is owed from then on. */
  take(now: number): readonly NodeRelease[] {
    if (this.owed.size === 0) return [];
    const due = [...this.owed.values()].filter(({ forgetAt }) => forgetAt > now);
    this.owed.clear();
    return due;
  }
}
