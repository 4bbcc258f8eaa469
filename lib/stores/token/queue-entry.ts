import { randomBytes } from 'node:crypto';
import type { LockMode, LockOwnership } from '../../core/store/lock-store.js';
import { otherWireOf, WIRE_PREFIX } from '../../redis/wire.js';

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
 * Returns what the scripts keep in the lock or its queue for an owner: `v1-owner/secret` for an exclusive lock,
 * `v1-owner/secret *` for a shared one, `v1-owner/secret n` for one of `n` permits.
 */
export function encodeEntry({ owner, mode }: Owned, secret: string): string {
  const entry = `${WIRE_PREFIX}${owner}/${secret}`;
  return mode === 'exclusive' ? entry : `${entry} ${mode === 'shared' ? '*' : mode}`;
}

/** A decoded entry. */
interface DecodedEntry extends Owned {
  /** The wire version of the entry, if it is another one. */
  readonly wireVersion?: number | undefined;
}

/** Returns the owner and the mode that {@link encodeEntry} has encoded, or what is known of another version's entry. */
export function decodeEntry(entry: string): DecodedEntry {
  const other = otherWireOf(entry);
  const [owned, mode] = entry.split(' ');
  const owner = owned.split('/', 1)[0];
  if (other !== undefined) {
    return { owner: owner.slice(owner.indexOf('-') + 1), mode: decodeOtherMode(mode), wireVersion: other.version };
  }
  return { owner: owner.slice(WIRE_PREFIX.length), mode: decodeMode(mode) };
}

/** Returns the mode that follows the owner in an entry. An exclusive entry has none. */
export function decodeMode(mode = ''): LockMode {
  if (mode === '') return 'exclusive';
  return mode === '*' ? 'shared' : Number(mode);
}

/** Another version may write modes that this one does not know. */
function decodeOtherMode(mode = ''): LockMode {
  return /^(?:\*|\d+|)$/.test(mode) ? decodeMode(mode) : 'shared';
}
