import { randomBytes } from 'node:crypto';
import type { LockMode, LockOwnership } from '../../core/store/lock-store.js';

/** An owner and its mode. */
type Owned = Pick<LockOwnership, 'owner' | 'mode'>;

/**
 * Returns a secret for one module instance. It stands in the instance's queue entries, so that a script can prove that
 * a handoff message comes from it.
 */
export function newSecret(): string {
  return randomBytes(12).toString('base64url');
}

/**
 * Returns what the scripts keep in the lock or its queue for an owner: `owner/secret` for an exclusive lock,
 * `owner/secret *` for a shared one, `owner/secret n` for one of `n` permits.
 */
export function encodeEntry({ owner, mode }: Owned, secret: string): string {
  const entry = `${owner}/${secret}`;
  return mode === 'exclusive' ? entry : `${entry} ${mode === 'shared' ? '*' : mode}`;
}

/** Returns the owner and the mode that {@link encodeEntry} has encoded. */
export function decodeEntry(entry: string): Owned {
  const [owned, mode] = entry.split(' ');
  return { owner: owned.split('/', 1)[0], mode: decodeMode(mode) };
}

/** Returns the mode that follows the owner in an entry. An exclusive entry has none. */
export function decodeMode(mode = ''): LockMode {
  if (mode === '') return 'exclusive';
  return mode === '*' ? 'shared' : Number(mode);
}
