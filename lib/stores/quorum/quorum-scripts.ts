import { isOne, toRemainingMs } from '../../redis/decode.js';
import { RedisScript } from '../../redis/redis-script.js';
import { scripts as redisScripts } from '../../redis/scripts.js';
import { otherWireOf } from '../../redis/wire.js';
import { scripts } from './scripts.js';

/** One node has given the lock to the owner. */
export interface NodeGranted {
  readonly status: 'granted';
  readonly token: number;
  /** The node had given it to the same owner before. */
  readonly repeated: boolean;
}

/** Another owner holds the lock on one node. */
export interface NodeHeld {
  readonly status: 'held';
  readonly remainingMs: number;
  readonly holder: string;
}

export type NodeVote = NodeGranted | NodeHeld;

/**
 * One node's reply to an acquire, with its time in µs. `expired`: the request arrived after its deadline and did
 * nothing.
 */
export type NodeAcquireReply = (NodeVote | { readonly status: 'expired' }) & { readonly now: number };

/**
 * One node's reply to an extend. `taken`: another owner holds the lock there. `missing`: nobody holds it there.
 * `renewed` carries what a node that has lost the lock needs to restore it.
 */
export type NodeExtendReply =
  | { readonly status: 'renewed'; readonly value: string; readonly fence: number }
  | { readonly status: 'taken' }
  | { readonly status: 'missing' };

/** The holder of a lock, as one node keeps it. */
export interface NodeLock {
  readonly owner: string;
  /** The holder's instance id, or the whole value if another system wrote it. */
  readonly holder: string;
  readonly remainingMs: number;
  readonly token: number | undefined;
  /** The wire version that wrote it, if it is another one. */
  readonly wireVersion?: number | undefined;
}

export const acquireScript = new RedisScript(scripts.acquire, voteOf);
export const writeBackScript = new RedisScript(scripts.writeBack, isOne);
export const releaseScript = new RedisScript(scripts.release, isOne);
export const extendScript = new RedisScript(scripts.extend, renewalOf);
export const restoreScript = new RedisScript(scripts.restore, isOne);

/** Returns what a node keeps of a lock, or null. The Lua is the one that the token store uses. */
export const inspectScript = new RedisScript(redisScripts.inspect, (reply): NodeLock | null => {
  if (reply === null) return null;
  const [value, ttl] = reply as [string, number | string];
  return lockOf(value, toRemainingMs(ttl));
});

/** The value of a lock: `<instanceId>:<attempt> <round> <token>`. */
const OURS = /^([\w-]+):\d+ \d+ (\d+)$/;

/** Returns the token in a value that this store wrote. */
export function tokenOf(value: string): number {
  return Number(OURS.exec(value)?.[2]);
}

/** Decodes a reply. Numbers arrive as strings from a client with `stringNumbers`. */
function voteOf(reply: unknown): NodeAcquireReply {
  const [status, value, now, held] = reply as [number | string, number | string, string, string];
  const at = { now: Number(now) };
  if (Number(status) === -1) return { status: 'expired', ...at };
  if (Number(status) !== 0) return { status: 'granted', token: Number(value), repeated: Number(status) === 2, ...at };
  return { status: 'held', remainingMs: toRemainingMs(value), holder: ownerOf(held), ...at };
}

function renewalOf(reply: unknown): NodeExtendReply {
  if (!Array.isArray(reply)) return { status: Number(reply) === 0 ? 'taken' : 'missing' };
  const [value, fence] = reply as [string, string];
  return { status: 'renewed', value, fence: Number(fence) };
}

function lockOf(value: string, remainingMs: number): NodeLock {
  const other = otherWireOf(value);
  if (other !== undefined) {
    const { instanceId, version } = other;
    // The rest of the value may differ between the nodes.
    return {
      owner: `v${version}-${instanceId}`,
      holder: instanceId,
      remainingMs,
      token: undefined,
      wireVersion: version,
    };
  }
  const ours = OURS.exec(value);
  return {
    owner: ownerOf(value),
    holder: ours?.[1] ?? value,
    remainingMs,
    token: ours === null ? undefined : Number(ours[2]),
  };
}

function ownerOf(value: string): string {
  return OURS.test(value) ? value.slice(0, value.indexOf(' ')) : value;
}
