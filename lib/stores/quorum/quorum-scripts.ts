import { luaScripts } from '../../lua/index.js';
import { RedisScript } from '../redis/redis-script.js';

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

/** What a node keeps of a lock. */
export interface NodeLock {
  readonly owner: string;
  /** The holder's instance id, or all that the key holds, where another system wrote it. */
  readonly holder: string;
  readonly remainingMs: number;
  readonly token: number | undefined;
}

/** A client with `stringNumbers` answers strings. */
export const askScript = new RedisScript(luaScripts.quorumAsk, (reply): NodeAnswer => {
  const [status, value, now, held] = reply as [number | string, number | string, string, string];
  const at = { now: Number(now) };
  if (Number(status) === -1) return { status: 'late', ...at };
  if (Number(status) !== 0) return { status: 'given', token: Number(value), before: Number(status) === 2, ...at };
  return { status: 'held', remainingMs: remaining(value), holder: ownerOf(held), ...at };
});

export const settleScript = new RedisScript(luaScripts.quorumSettle, isOne);
export const releaseScript = new RedisScript(luaScripts.quorumRelease, isOne);
export const healScript = new RedisScript(luaScripts.quorumHeal, isOne);

export const extendScript = new RedisScript(luaScripts.quorumExtend, (reply): NodeRenewal => {
  if (!Array.isArray(reply)) return { status: Number(reply) === 0 ? 'taken' : 'gone' };
  const [value, fence] = reply as [string, string];
  return { status: 'renewed', value, fence: Number(fence) };
});

/** What a lock is looked at with is the token store's. */
export const inspectScript = new RedisScript(luaScripts.tokenInspect, (reply): NodeLock | null => {
  if (reply === null) return null;
  const [value, ttl] = reply as [string, number | string];
  const ours = OURS.exec(value);
  return {
    owner: ownerOf(value),
    holder: ours?.[1] ?? value,
    remainingMs: remaining(ttl),
    token: ours === null ? undefined : Number(ours[2]),
  };
});

/** Values of this store are `<instanceId>:<askId> <round> <token>`. */
const OURS = /^([\w-]+):\d+ \d+ (\d+)$/;

/** The token in a value of this store. */
export function tokenOf(value: string): number {
  return Number(OURS.exec(value)?.[2]);
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
