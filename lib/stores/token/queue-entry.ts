import type { LockMode, LockOwnership } from '../../core/store/lock-store.js';

/** Who wants a lock, and how, in one word: as the scripts keep it in the queue, and among those who share the lock. */
export function encodeEntry({ owner, mode }: Pick<LockOwnership, 'owner' | 'mode'>): string {
  return mode === 'exclusive' ? owner : `${owner} ${mode === 'shared' ? '*' : mode}`;
}

/** The owner that a claim begins with. */
export function ownerOf(claim: string): string {
  const [owner] = claim.split(' ', 1);
  return owner;
}

/** The mode that a claim ends with, if it shares the lock. */
export function modeOf(claim: string): LockMode {
  const [, mode] = claim.split(' ');
  if (mode === undefined) return 'exclusive';
  return mode === '*' ? 'shared' : Number(mode);
}
