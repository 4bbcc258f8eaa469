import { LockConfigError } from '../core/errors.js';

/**
 * The wire: what instances of different releases read of each other in Redis. These are keys and their types, values,
 * queue entries, channels and messages. A change that an instance of the version before misunderstands needs the next
 * number, here and in `includes/other-wire.lua` of the token store, whose README lists what may never change.
 */
export const WIRE_VERSION = 1;

/** What each value and each entry begins with, and the last part of each channel. */
export const WIRE_PREFIX = `v${WIRE_VERSION}-`;

/** Every version writes this beginning, so that each recognizes all others. */
const MARKED = /^v(\d+)-([\w-]+):\d+\//;

/** What an instance of another wire version wrote. */
export interface OtherWire {
  readonly version: number;
  readonly instanceId: string;
}

/**
 * Returns the wire version of a value or an entry, if it is another one. Undefined for a string of this version, and
 * for that of another system, which has no version.
 */
export function otherWireOf(text: string): OtherWire | undefined {
  if (text.startsWith(WIRE_PREFIX)) return undefined;
  const [, version, instanceId] = MARKED.exec(text) ?? [];
  return version === undefined ? undefined : { version: Number(version), instanceId };
}

/** Returns the warning for an instance that meets another wire version. */
export function otherWireWarning(version: number): string {
  const both = `An instance with wire version ${version} uses these locks, and this one has version ${WIRE_VERSION}`;
  return `${both}: they exclude each other, and wait without a common queue. See docs/production.md#versions`;
}

/** Returns the error for a release by force of what another wire version holds. */
export function otherWireForced(version: number): LockConfigError {
  const what = `forceRelease(): an instance with wire version ${version} holds the lock`;
  const allowed = `expected wire version ${WIRE_VERSION}. Use the same release as the holder`;
  return new LockConfigError(`${what}; ${allowed}.`);
}
