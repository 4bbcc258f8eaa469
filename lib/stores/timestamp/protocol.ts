import { toRemainingMs } from '../../redis/redis-script.js';
import type { AcquireReply, ExtendReply, LockState } from '../../contract/store.js';
import type { ExpiryClock } from './expiry-clock.js';

/** How the algorithm runs on a server: each step as one script, or as several plain commands. */
export interface Protocol {
  /** @param isOver returns whether the request has ended. Nothing more is sent for it then. */
  acquire(key: string, owner: string, leaseMs: number, isOver: () => boolean): Promise<AcquireReply>;
  extend(key: string, owner: string, leaseMs: number): Promise<ExtendReply>;
  release(key: string, owner: string, closedForMs: number): Promise<boolean>;
  inspect(key: string): Promise<LockState | null>;
  forceRelease?(key: string): Promise<boolean>;
}

/** The lock is granted. Its callers can pass it on, because it has no token. */
export const GRANTED: AcquireReply = { status: 'granted', token: undefined, tokens: 1 };

/** Returns the reply to a request for a lock that has this value. @param owner undefined if it is not known. */
export function heldReply(time: ExpiryClock, held: string | undefined, owner?: string): AcquireReply {
  const remainingMs = held === undefined ? undefined : time.expiresInMs(held);
  return { status: 'held', queued: false, remainingMs, holder: owner === undefined ? undefined : holderOf(owner) };
}

/** Returns the state of a lock that has this value. Of a client without scripts, only the value is known. */
export function stateOf(time: ExpiryClock, held: string, ttl: unknown, owner: string | undefined): LockState | null {
  if (time.isExpired(held)) return null;
  const value = time.read(held);
  const remainingMs = value === undefined ? Math.max(0, toRemainingMs(ttl)) : time.untilMs(value);
  return { holder: owner === undefined ? held : holderOf(owner).instanceId, remainingMs, token: undefined };
}

/** The owner of a lock that stays closed is `<instance>:<attempt>:0`. */
function holderOf(owner: string) {
  return { instanceId: owner.split(':', 1)[0] };
}
