import type { LockMode } from '../../core/store/lock-store.js';

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
const MAX_PENDING = 10_000;

/** Releases that a node could not be told of, each once. */
export class PendingReleases {
  private readonly releases = new Map<string, NodeRelease>();

  add(release: NodeRelease): void {
    this.releases.set(`${release.key} ${release.owner}`, release);
    if (this.releases.size <= MAX_PENDING) return;
    const [oldest] = this.releases.keys();
    this.releases.delete(oldest);
  }

  /** All whose leases are not over yet; nothing is owed from then on. */
  take(now: number): readonly NodeRelease[] {
    if (this.releases.size === 0) return [];
    const due = [...this.releases.values()].filter(({ forgetAt }) => forgetAt > now);
    this.releases.clear();
    return due;
  }
}
