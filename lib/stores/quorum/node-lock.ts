import { isOne, toRemainingMs } from '../../redis/decode.js';
import { RedisScript } from '../../redis/redis-script.js';
import { scripts as redisScripts } from '../../redis/scripts.js';
import { otherWireOf } from '../../redis/wire.js';
import { scripts } from './scripts.js';

/** What one node keeps of a lock. */
export interface NodeLock {
  /** The ballot, or the whole value of another system. The same on all nodes that gave it the lock. */
  readonly ballot: string;
  /** The holder's instance. Undefined if another system's client holds the lock. */
  readonly instanceId: string | undefined;
  readonly remainingMs: number;
  readonly token: number | undefined;
  /** The wire version that wrote it, if it is another one. */
  readonly wireVersion: number | undefined;
}

/** A node has given the lock to the ballot that asked. */
export interface NodeGranted {
  readonly status: 'granted';
  readonly token: number;
}

/** A node has not given the lock, because another owner has it there. */
export interface NodeHeld {
  readonly status: 'held';
  readonly lock: NodeLock;
}

export type NodeVote = NodeGranted | NodeHeld;

/** The value of a lock: `<instance>:<attempt> <round> <token>`, behind `!` if its owner has closed it. */
const OURS = /^!?([\w-]+):\d+ \d+ (\d+)$/;

/** A vote, with the node's time in µs. Numbers arrive as strings from a client with `stringNumbers`. */
export const acquireScript = new RedisScript(scripts.acquire, (reply): NodeVote & { readonly now: number } => {
  const [granted, now, number, value] = reply as [number | string, string, number | string, string];
  if (isOne(granted)) return { status: 'granted', now: Number(now), token: Number(number) };
  return { status: 'held', now: Number(now), lock: lockOf(value, number) };
});
export const writeBackScript = new RedisScript(scripts.writeBack, isOne);
export const releaseScript = new RedisScript(scripts.release, isOne);
/** 1: renewed. 0: another owner has the lock on the node. -1: nobody has it there. */
export const extendScript = new RedisScript(scripts.extend, Number);
export const inspectScript = new RedisScript(redisScripts.inspect, (reply): NodeLock | null => {
  if (reply === null) return null;
  const [value, ttl] = reply as [string, number | string];
  return lockOf(value, ttl);
});

function lockOf(value: string, ttl: number | string): NodeLock {
  const remainingMs = toRemainingMs(ttl);
  const other = otherWireOf(value);
  if (other !== undefined) {
    const { instanceId, version: wireVersion } = other;
    // The rest of the value may differ between the nodes.
    return { ballot: `v${wireVersion}-${instanceId}`, instanceId, remainingMs, token: undefined, wireVersion };
  }
  const [, instanceId, token] = OURS.exec(value) ?? [];
  const ballot = instanceId === undefined ? value : value.slice(0, value.lastIndexOf(' '));
  return { ballot, instanceId, remainingMs, token: token === undefined ? undefined : Number(token), wireVersion: undefined };
}
