/** The version of what instances of different releases read of each other in Redis, on the masters of a quorum. */
export const WIRE_VERSION = 1;

/** What each value begins with. */
const WIRE_PREFIX = `v${WIRE_VERSION}-`;

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
