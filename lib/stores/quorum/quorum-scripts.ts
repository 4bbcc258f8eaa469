import type { LockMode } from '../../core/store/lock-store.js';
import { luaScripts } from '../../lua/index.js';
import { RedisScript } from '../../redis/redis-script.js';

/** The lock is the asker's on one node. */
export interface Given {
  readonly status: 'given';
  readonly token: number;
  /** It was already. */
  readonly before: boolean;
}

/** The lock is somebody else's on one node. */
export interface HeldThere {
  readonly status: 'held';
  readonly remainingMs: number;
  readonly holder: string;
}

export type NodeVote = Given | HeldThere;

/** One node's answer to an ask, with its time in µs. */
export type NodeAnswer = (NodeVote | { readonly status: 'late' }) & { readonly now: number };

/** One node's answer to a renewal; with what gives the lock back to nodes that have lost it. */
export type NodeRenewal =
  | { readonly status: 'renewed'; readonly value: string; readonly fence: number }
  | { readonly status: 'taken' }
  | { readonly status: 'gone' };

/** What a node keeps of one who holds a lock. */
export interface NodeLock {
  readonly owner: string;
  readonly mode: LockMode;
  /** The holder's instance id, or all that the key holds, where another system wrote it. */
  readonly holder: string;
  readonly remainingMs: number;
  readonly token: number | undefined;
}

/** What nodes are asked by those who want a lock alone, or by those who share it: both are given the same, and answered alike. */
export interface LockScripts {
  readonly acquire: RedisScript<NodeAnswer>;
  readonly writeBack: RedisScript<boolean>;
  readonly release: RedisScript<boolean>;
  readonly extend: RedisScript<NodeRenewal>;
  readonly restore: RedisScript<boolean>;
}

const ALONE: LockScripts = {
  acquire: new RedisScript(luaScripts.quorumAsk, voteOf),
  writeBack: new RedisScript(luaScripts.quorumSettle, isOne),
  release: new RedisScript(luaScripts.quorumRelease, isOne),
  extend: new RedisScript(luaScripts.quorumExtend, renewalOf),
  restore: new RedisScript(luaScripts.quorumHeal, isOne),
};

const SHARED: LockScripts = {
  acquire: new RedisScript(luaScripts.quorumShareAsk, voteOf),
  writeBack: new RedisScript(luaScripts.quorumShareSettle, isOne),
  release: new RedisScript(luaScripts.quorumShareRelease, isOne),
  extend: new RedisScript(luaScripts.quorumShareExtend, renewalOf),
  restore: new RedisScript(luaScripts.quorumShareHeal, isOne),
};

/** What nodes are asked by those who hold locks in that mode. */
export function scriptsFor(mode: LockMode): LockScripts {
  return mode === 'shared' ? SHARED : ALONE;
}

/** What a lock is looked at with is the token store's. Answers all who hold it. */
export const inspectScript = new RedisScript(luaScripts.tokenInspect, (reply): readonly NodeLock[] => {
  if (reply === null) return [];
  const [value, ttl] = reply as [string, number | string];
  return isShared(value) ? sharersIn(value, Number(ttl)) : [lockOf(value, 'exclusive', remaining(ttl))];
});

/** The value of a lock that is held alone, and what there is of each who shares one, is `<instanceId>:<askId> <round> <token>`. */
const OURS = /^([\w-]+):\d+ \d+ (\d+)$/;

/** The token in a value of this store. */
export function tokenOf(value: string): number {
  return Number(OURS.exec(value)?.[2]);
}

/** A client with `stringNumbers` answers strings. */
function voteOf(reply: unknown): NodeAnswer {
  const [status, value, now, held] = reply as [number | string, number | string, string, string];
  const at = { now: Number(now) };
  if (Number(status) === -1) return { status: 'late', ...at };
  if (Number(status) !== 0) return { status: 'given', token: Number(value), before: Number(status) === 2, ...at };
  return { status: 'held', remainingMs: remaining(value), holder: isShared(held) ? SHARERS : ownerOf(held), ...at };
}

function renewalOf(reply: unknown): NodeRenewal {
  if (!Array.isArray(reply)) return { status: Number(reply) === 0 ? 'taken' : 'gone' };
  const [value, fence] = reply as [string, string];
  return { status: 'renewed', value, fence: Number(fence) };
}

/** What the value of a shared lock begins with: `;` and all who share it follow. */
const SHARERS = '*';

function isShared(value: string): boolean {
  return value.startsWith(`${SHARERS};`);
}

/** All who share a lock. Its key lives as long as the last of them, and their ends are told in the node's time. */
function sharersIn(value: string, ttl: number): readonly NodeLock[] {
  const sharers = value.split(';').slice(1, -1);
  const ends = sharers.map((sharer) => Number(sharer.slice(sharer.lastIndexOf(' '))));
  const last = Math.max(...ends);
  return sharers
    .map((sharer, i) => lockOf(sharer.slice(0, sharer.lastIndexOf(' ')), 'shared', ttl - last + ends[i]))
    .filter(({ remainingMs }) => remainingMs > 0);
}

/** Each node keeps a token of its own of those who share the lock: which of them counts is not known. */
function lockOf(value: string, mode: LockMode, remainingMs: number): NodeLock {
  const ours = OURS.exec(value);
  const token = ours === null || mode === 'shared' ? undefined : Number(ours[2]);
  return { owner: ownerOf(value), mode, holder: ours?.[1] ?? value, remainingMs, token };
}

function ownerOf(value: string): string {
  return OURS.test(value) ? value.slice(0, value.indexOf(' ')) : value;
}

function remaining(ttl: number | string): number {
  return Number(ttl) === -1 ? Infinity : Number(ttl);
}

function isOne(reply: unknown): boolean {
  return Number(reply) === 1;
}
