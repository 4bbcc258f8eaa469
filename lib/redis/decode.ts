/** Returns true if a script replied 1. A client with `stringNumbers` receives numbers as strings. */
export function isOne(reply: unknown): boolean {
  return Number(reply) === 1;
}

/** Returns `renewed` if an extend script replied 1, else `lost`. */
export function toExtendReply(reply: unknown): 'renewed' | 'lost' {
  return isOne(reply) ? 'renewed' : 'lost';
}

/** Converts a PTTL in milliseconds. A key without TTL has -1, which becomes Infinity. */
export function toRemainingMs(pttl: unknown): number {
  const ms = Number(pttl);
  return ms === -1 ? Infinity : ms;
}
