import type { ExtendReply, HolderInfo } from '../../core/store/lock-store.js';
import { luaScripts } from '../../lua/index.js';
import type { DeadlineReply } from '../../redis/deadline-requests.js';
import { RedisScript } from '../../redis/redis-script.js';

/** What the scripts answer to an ask. */
export const GRANTED = 1;

/** What the script answers to a release, where it is not how many were told of it. */
export const NOT_TOLD = -1;
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
    remainingMs: Number(ttl) === -1 ? Infinity : Number(ttl),
    token: token === undefined || token === null ? undefined : Number(token),
  };
};

/** The scripts for the lock alone, and for the lock with its fencing token. */
export const plain = {
  ask: new RedisScript(luaScripts.redissonAsk, toDatedReply),
  inspect: new RedisScript(luaScripts.redissonInspect, toHolder),
};
export const fenced = {
  ask: new RedisScript(luaScripts.redissonFencedAsk, toDatedReply),
  inspect: new RedisScript(luaScripts.redissonFencedInspect, toHolder),
};

export const releaseScript = new RedisScript(luaScripts.redissonRelease, Number);
export const extendScript = new RedisScript(luaScripts.redissonExtend, (reply): ExtendReply =>
  Number(reply) === 1 ? 'renewed' : 'lost',
);

/** Where those who wait for the lock of that name listen. */
export function channelOf(name: string): string {
  return besideName('redisson_lock__channel', name);
}

/** Where the last fencing token of the lock of that name is kept. */
export function tokenKeyOf(name: string): string {
  return besideName('redisson_lock_token', name);
}

/** As Redisson names what belongs to a lock: in its slot. */
function besideName(kind: string, name: string): string {
  return name.includes('{') ? `${kind}:${name}` : `${kind}:{${name}}`;
}
