import type { LockMode } from '../../core/store/lock-store.js';
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

/** One holder of a lock, as one node keeps it. */
export interface NodeLock {
  readonly owner: string;
  readonly mode: LockMode;
  /** The holder's instance id, or the whole value if another system wrote it. */
  readonly holder: string;
  readonly remainingMs: number;
  readonly token: number | undefined;
  /** The wire version that wrote it, if it is another one. */
  readonly wireVersion?: number | undefined;
}

/** The scripts of one mode. Both modes take the same arguments and return the same replies. */
export interface QuorumScripts {
  readonly acquire: RedisScript<NodeAcquireReply>;
  readonly writeBack: RedisScript<boolean>;
  readonly release: RedisScript<boolean>;
  readonly extend: RedisScript<NodeExtendReply>;
  readonly restore: RedisScript<boolean>;
}

const EXCLUSIVE: QuorumScripts = {
  acquire: new RedisScript(scripts.acquire, voteOf),
  writeBack: new RedisScript(scripts.writeBack, isOne),
  release: new RedisScript(scripts.release, isOne),
  extend: new RedisScript(scripts.extend, renewalOf),
  restore: new RedisScript(scripts.restore, isOne),
};

const SHARED: QuorumScripts = {
  acquire: new RedisScript(scripts.acquireShared, voteOf),
  writeBack: new RedisScript(scripts.writeBackShared, isOne),
  release: new RedisScript(scripts.releaseShared, isOne),
  extend: new RedisScript(scripts.extendShared, renewalOf),
  restore: new RedisScript(scripts.restoreShared, isOne),
};

/** Returns the scripts of a mode. */
export function scriptsFor(mode: LockMode): QuorumScripts {
  return mode === 'shared' ? SHARED : EXCLUSIVE;
}

/** Returns all holders of a lock. The Lua is the one that the token store uses. */
export const inspectScript = new RedisScript(redisScripts.inspect, (reply): readonly NodeLock[] => {
  if (reply === null) return [];
  const [value, ttl] = reply as [string, number | string];
  return isShared(value) ? sharersIn(value, Number(ttl)) : [lockOf(value, 'exclusive', toRemainingMs(ttl))];
});

/** The value of an exclusive lock, and each entry of a shared one: `<instanceId>:<attempt> <round> <token>`. */
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
  return { status: 'held', remainingMs: toRemainingMs(value), holder: isShared(held) ? SHARERS : ownerOf(held), ...at };
}

function renewalOf(reply: unknown): NodeExtendReply {
  if (!Array.isArray(reply)) return { status: Number(reply) === 0 ? 'taken' : 'missing' };
  const [value, fence] = reply as [string, string];
  return { status: 'renewed', value, fence: Number(fence) };
}

/** The value of a shared lock begins with this. `;` and one entry for each holder follow. */
const SHARERS = '*';

function isShared(value: string): boolean {
  return value.startsWith(`${SHARERS};`);
}

/**
 * Returns all holders of a shared lock. The key expires with the last of them. Each entry ends with its expiry in
 * server time.
 */
function sharersIn(value: string, ttl: number): readonly NodeLock[] {
  const sharers = value.split(';').slice(1, -1);
  const ends = sharers.map((sharer) => Number(sharer.slice(sharer.lastIndexOf(' '))));
  const last = Math.max(...ends);
  return sharers
    .map((sharer, i) => lockOf(sharer.slice(0, sharer.lastIndexOf(' ')), 'shared', ttl - last + ends[i]))
    .filter(({ remainingMs }) => remainingMs > 0);
}

/**
 * Decodes one holder. Each node keeps another token of a shared lock, so one node does not know which of them was
 * agreed on.
 */
function lockOf(value: string, mode: LockMode, remainingMs: number): NodeLock {
  const other = otherWireOf(value);
  if (other !== undefined) {
    const { instanceId, version } = other;
    // The rest of the value may differ between the nodes.
    const owner = `v${version}-${instanceId}`;
    return { owner, mode, holder: instanceId, remainingMs, token: undefined, wireVersion: version };
  }
  const ours = OURS.exec(value);
  const token = ours === null || mode === 'shared' ? undefined : Number(ours[2]);
  return { owner: ownerOf(value), mode, holder: ours?.[1] ?? value, remainingMs, token };
}

function ownerOf(value: string): string {
  return OURS.test(value) ? value.slice(0, value.indexOf(' ')) : value;
}
