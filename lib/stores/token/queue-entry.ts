import type { LockMode, LockOwnership } from '../../core/store/lock-store.js';

/** An owner and its mode, which the scripts keep as one string in the queue and among the sharers of a lock. */
type Entry = Pick<LockOwnership, 'owner' | 'mode'>;

/** Returns `owner` for an exclusive lock, `owner *` for a shared one, or `owner n` for one of `n` permits. */
export function encodeEntry({ owner, mode }: Entry): string {
  return mode === 'exclusive' ? owner : `${owner} ${mode === 'shared' ? '*' : mode}`;
}

/** Returns the owner and the mode that {@link encodeEntry} has encoded. */
export function decodeEntry(entry: string): Entry {
  const [owner, mode] = entry.split(' ');
  return { owner, mode: decodeMode(mode) };
}

function decodeMode(mode: string | undefined): LockMode {
  if (mode === undefined) return 'exclusive';
  return mode === '*' ? 'shared' : Number(mode);
}
