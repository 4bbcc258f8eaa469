import {
  type ExtendReply,
  type ExtendRequest,
  type HolderInfo,
  instanceOf,
  type LockMode,
  type WaiterInfo,
} from '../../core/store/lock-store.js';
import { fenceKey, helperKey } from '../../core/keys/resource-key.js';
import type { DeadlineReply } from '../../redis/deadline-requests.js';
import { RedisScript, wholeMs } from '../../redis/redis-script.js';
import { scripts as redisScripts } from '../../redis/scripts.js';
import type { Call } from '../../redis/topology.js';
import { encodeEntry, modeOf, ownerOf } from './queue-entry.js';
import { scripts } from './scripts.js';

/** A client with `stringNumbers` answers strings. */
export const acquireScript = new RedisScript(scripts.acquire, (reply): DeadlineReply => {
  if (!Array.isArray(reply)) return { status: 1, value: Number(reply), now: Number(reply) };
  const [status, value, now] = reply.map(Number) as [number, number, number];
  return { status, value, now };
});
export const acquireManyScript = new RedisScript(scripts.acquireMany, (reply): DeadlineReply => {
  const [status, value, now, nth] = (reply as unknown[]).map(Number);
  return { status, value, now, nth };
});
export const releaseScript = new RedisScript(scripts.release, (reply) => Number(reply) === 1);
export const extendScript = new RedisScript(scripts.extend, (reply): ExtendReply =>
  Number(reply) === 1 ? 'renewed' : 'lost',
);
export const inspectScript = new RedisScript(redisScripts.inspect, (reply): HolderInfo | null => {
  if (reply === null) return null;
  const [value, ttl] = reply as [value: string, ttl: number | string];
  return holderOf(value, Number(ttl));
});
export const queueScript = new RedisScript(scripts.inspectQueue, (reply) => lineOf(reply as (string | number)[]));

/** The lock, the last fencing token under its hash tag, and the queue for it, before which those stand who share it. */
export function keysOf(key: string): readonly [lock: string, fence: string, queue: string] {
  return [key, fenceKey(key), helperKey(key, 'queue')];
}

/** Names keys as they are sent. */
export interface KeyPlaces {
  keysOf(key: string): readonly string[];
}

/** Several locks under one hash tag: what they share, and then each. */
export function keysOfAll(keys: readonly string[], places: KeyPlaces): readonly string[] {
  const each = keys.map((key) => places.keysOf(key));
  const [[, fence]] = each;
  return [fence, ...each.flatMap(([lock, , queue]) => [lock, queue])];
}

/** What the extend script is given for one lock. */
export function renewalOf(request: ExtendRequest, places: KeyPlaces): Call {
  const [key] = request.keys;
  const [lock, , queue] = places.keysOf(key);
  return {
    key,
    keys: [request.mode === 'exclusive' ? lock : queue],
    args: [encodeEntry(request), wholeMs(request.leaseMs)],
  };
}

/** One who shares a lock. Tokens are not kept: nobody among the sharers has to come behind another. */
interface Sharer extends HolderInfo {
  readonly mode: LockMode;
}

/** Who shares a lock, and who waits for it. */
function lineOf(list: readonly (string | number)[]): { sharers: readonly Sharer[]; waiting: readonly WaiterInfo[] } {
  const sharers: Sharer[] = [];
  const waiting: WaiterInfo[] = [];
  for (let i = 0; i < list.length; i += 2) {
    const claim = String(list[i]);
    const remainingMs = Number(list[i + 1]);
    const [id, mode] = [instanceOf(ownerOf(claim)), modeOf(claim)];
    if (remainingMs > 0) sharers.push({ holder: id, mode, remainingMs, token: undefined });
    else if (remainingMs === 0) waiting.push({ waiter: id, mode });
  }
  return { sharers, waiting };
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
