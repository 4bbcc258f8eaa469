import type { HolderInfo } from '../../core/store/lock-store.js';
import type { DeadlineReply } from '../../redis/deadline-requests.js';
import { isOne, toExtendReply, toRemainingMs } from '../../redis/decode.js';
import { RedisScript } from '../../redis/redis-script.js';
import { scripts } from './scripts.js';

/** The acquire script has granted the lock. */
export const GRANTED = 1;

/**
 * Replies of the release script in place of the number of subscribers: PUBLISH was refused, or the lock was not ours.
 */
export const PUBLISH_REFUSED = -1;
export const NOT_OURS = -2;

const toDatedReply = (reply: unknown): DeadlineReply => {
  const [status, value, now] = (reply as unknown[]).map(Number) as [number, number, number];
  return { status, value, now };
};

const toHolder = (reply: unknown): HolderInfo | null => {
  if (reply === null) return null;
  const [field, ttl, token] = reply as [field: string, ttl: number | string, token?: string | null];
  return {
    holder: field,
    remainingMs: toRemainingMs(ttl),
    token: token === undefined || token === null ? undefined : Number(token),
  };
};

/** The acquire and the inspect script also take the key of the fencing token if the lock has one. */
export const acquireScript = new RedisScript(scripts.acquire, toDatedReply);
export const inspectScript = new RedisScript(scripts.inspect, toHolder);

export const releaseScript = new RedisScript(scripts.release, Number);
export const forceReleaseScript = new RedisScript(scripts.forceRelease, isOne);
export const extendScript = new RedisScript(scripts.extend, toExtendReply);

/** Returns the pub/sub channel of a lock. */
export function channelOf(name: string): string {
  return helperNameOf('redisson_lock__channel', name);
}

/** Returns the key of a lock's last fencing token. */
export function tokenKeyOf(name: string): string {
  return helperNameOf('redisson_lock_token', name);
}

/** Returns the name of a helper key or channel, as Redisson builds it: in the slot of the lock. */
function helperNameOf(kind: string, name: string): string {
  return name.includes('{') ? `${kind}:${name}` : `${kind}:{${name}}`;
}
