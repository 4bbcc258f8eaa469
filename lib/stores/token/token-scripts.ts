import type { ExtendReply, HolderInfo } from '../../core/lock-store.js';
import { fenceKey, helperKey } from '../../core/resource-key.js';
import { luaScripts } from '../../lua/index.js';
import type { DatedReply } from '../redis/dated-asks.js';
import { RedisScript } from '../redis/redis-script.js';

/** What the scripts answer to an ask. */
export const GRANTED = 1;
export const GRANTED_BEFORE = 2;
export const QUEUED = 3;

/** A client with `stringNumbers` answers strings. */
export const askScript = new RedisScript(luaScripts.tokenAsk, (reply): DatedReply => {
  if (!Array.isArray(reply)) return { status: GRANTED, value: Number(reply), now: Number(reply) };
  const [status, value, now] = reply.map(Number) as [number, number, number];
  return { status, value, now };
});
export const releaseScript = new RedisScript(luaScripts.tokenRelease, (reply) => Number(reply) === 1);
export const extendScript = new RedisScript(luaScripts.tokenExtend, (reply): ExtendReply =>
  Number(reply) === 1 ? 'renewed' : 'lost',
);
export const inspectScript = new RedisScript(luaScripts.tokenInspect, (reply) => {
  if (reply === null) return null;
  const [value, ttl] = reply as [value: string, ttl: number | string];
  return holderOf(value, Number(ttl));
});

/** The lock, the last fencing token under its hash tag, and the queue for it. */
export function keysOf(key: string): readonly string[] {
  return [key, fenceKey(key), helperKey(key, 'queue')];
}

/** Values of this store are `<instanceId>:<askId> <token>`; what another system wrote is shown as it is. */
function holderOf(value: string, ttl: number): HolderInfo {
  const ours = /^([\w-]+):\d+ (\d+)$/.exec(value);
  return {
    holder: ours?.[1] ?? value,
    remainingMs: ttl === -1 ? Infinity : ttl,
    token: ours === null ? undefined : Number(ours[2]),
  };
}
