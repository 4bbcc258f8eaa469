import type { LockMode } from '../../core/store/lock-store.js';

/** Who wants a lock, and how. */
export interface QueueEntry {
  readonly owner: string;
  readonly mode: LockMode;
}

/** Who holds a key, and until when. */
export interface Holder extends QueueEntry {
  readonly token: number;
  expiresAt: number;
}

/** One key, as the token store keeps it in Redis. */
export interface LockRow {
  /** One alone, or all who share it. */
  holders: Holder[];
  /** First come first. */
  queue: QueueEntry[];
}

/** The owner's hold. */
export function holderIn({ holders }: LockRow, owner: string): Holder | undefined {
  return holders.find((holder) => holder.owner === owner);
}

/** Whether one in that mode may hold the lock beside those who do. */
export function admits({ holders }: LockRow, mode: LockMode): boolean {
  const other = holders.at(0)?.mode;
  if (other === undefined) return true;
  return mode === other && mode !== 'exclusive' && (mode === 'shared' || holders.length < mode);
}

/** Another number of permits than is asked for, if others hold one of those. */
export function otherPermits({ holders }: LockRow, mode: LockMode): number | undefined {
  const other = holders.at(0)?.mode;
  return typeof other === 'number' && typeof mode === 'number' && other !== mode ? other : undefined;
}

/** When those who hold it may let one in that mode in. Whoever wants it alone waits for the last of them. */
export function freeAt({ holders }: LockRow, mode: LockMode): number {
  const ends = holders.map(({ expiresAt }) => expiresAt);
  return mode === 'exclusive' ? Math.max(...ends) : Math.min(...ends);
}

/** Ends the owner's waiting. */
export function leave(row: LockRow, owner: string): void {
  const place = row.queue.findIndex((claim) => claim.owner === owner);
  if (place !== -1) row.queue.splice(place, 1);
}
