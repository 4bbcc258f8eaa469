import { instanceOf } from '../../core/store/instance-id.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendRequest,
  ForceReleaseRequest,
  HolderHint,
  HolderInfo,
  LockMode,
  LockOwnership,
  LockState,
  ReleaseRequest,
  WaiterInfo,
} from '../../core/store/lock-store.js';
import { helperKey } from '../../core/keys/resource-key.js';
import { type DeadlineReply, PAST_DEADLINE } from '../../redis/deadline-requests.js';
import { toExtendReply, toRemainingMs } from '../../redis/decode.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { RedisScript, wholeMs } from '../../redis/redis-script.js';
import { scripts as redisScripts } from '../../redis/scripts.js';
import type { Call } from '../../redis/topology.js';
import { decodeEntry, encodeEntry } from './queue-entry.js';
import { scripts } from './scripts.js';
import { otherWireOf, WIRE_PREFIX, WIRE_VERSION } from '../../redis/wire.js';

/** `v1-<instanceId>:<attempt>/<secret>`. */
const OWNER = `${WIRE_PREFIX}([\\w-]+):\\d+/[\\w-]+`;
/** The value of an exclusive lock: an owner, a space and the token. */
const VALUE = new RegExp(`^${OWNER} (\\d+)$`);
/** What a reply names as the holder: the same, or the entry of a sharer, with its mode in place of the token. */
const HOLDER = new RegExp(`^${OWNER}(?: (\\d+|\\*))?$`);

const GRANTED = 1;
/** The same owner was granted the lock by an earlier request. */
const GRANTED_BEFORE = 2;
const QUEUED = 3;
const PERMITS_MISMATCH = -2;

/** In place of a remaining life: it is not known. */
const UNKNOWN_MS = -2;

// A client with `stringNumbers` receives numbers as strings.
export const acquireScript = new RedisScript(scripts.acquire, (reply): DeadlineReply => {
  if (!Array.isArray(reply)) return { status: GRANTED, value: Number(reply), now: Number(reply) };
  return toDeadlineReply(reply);
});
export const acquireBatchScript = new RedisScript(scripts.acquireBatch, (reply): AcquireBatchReply => {
  const [now, token, tokens, ...replies] = reply as unknown[];
  if (token === undefined) return { now: Number(now) };
  const granted = { status: GRANTED, value: Number(token), now: Number(now), tokens: Number(tokens) };
  if (replies.length === 0) return { now: granted.now, ofAll: granted };
  const decode = (each: unknown): DeadlineReply => (Array.isArray(each) ? toDeadlineReply(each) : granted);
  return { now: granted.now, ofEach: eachOf(replies, decode) };
});
export const acquireManyScript = new RedisScript(scripts.acquireMany, (reply): DeadlineReply => {
  const numbers = (reply as unknown[]).slice(0, 4).map(Number);
  const [status, value, now, nth] = numbers;
  return { status, value, now, nth, ...holderIn((reply as unknown[]).slice(4)) };
});
export const releaseScript = new RedisScript(scripts.release, toReleaseReply);
export const releaseBatchScript = new RedisScript(scripts.releaseBatch, (reply): RepliesOfBatch<ReleaseReply> => {
  return Array.isArray(reply) ? { ofEach: eachOf(reply, toReleaseReply) } : { ofAll: toReleaseReply(reply) };
});
export const extendScript = new RedisScript(scripts.extend, toExtendReply);
export const extendBatchScript = new RedisScript(scripts.extendBatch, (reply) => eachOf(reply, toExtendReply));
export const inspectScript = new RedisScript(redisScripts.inspect, (reply): HolderInfo | null => {
  if (reply === null) return null;
  const [value, ttl] = reply as [value: string, ttl: number | string];
  return decodeHolder(value, ttl);
});
export const queueScript = new RedisScript(scripts.inspectQueue, (reply) => decodeQueue(reply as (string | number)[]));

/** The value of an exclusive lock, and its token if this store has written it. Undefined without one. */
export const lockValueScript = new RedisScript(redisScripts.inspect, (reply) => {
  if (reply === null) return undefined;
  const [held, ttl] = reply as [held: string, ttl: number | string];
  return { held, token: decodeHolder(held, ttl).token };
});
/** The entries of the sharers whose leases are not over. Another wire version may measure leases in another way. */
export const holdersScript = new RedisScript(scripts.inspectQueue, (reply) => {
  const list = reply as (string | number)[];
  const holds = (entry: string | number, remainingMs: number): boolean =>
    remainingMs > 0 || (remainingMs < 0 && otherWireOf(String(entry)) !== undefined);
  return list.filter((entry, i) => i % 2 === 0 && holds(entry, Number(list[i + 1]))).map(String);
});
export const forceReleaseScript = new RedisScript(scripts.forceRelease, (reply) => {
  const [ended, more, ...unnotified] = reply as [unknown, unknown, ...string[]];
  return { ended: Number(ended), more: Number(more) === 1, unnotified };
});
/** Returns the number of receivers. */
export const notifyForcedScript = new RedisScript(scripts.notifyForced, Number);

type ServerClock = Pick<RedisConnection, 'localLowerBound'>;

/** The reply to a release. */
export interface ReleaseReply {
  readonly wasHeld: boolean;
  /** Whether the release has to be sent again, because one script hands a lock to a limited number of sharers. */
  readonly repeat: boolean;
}

function toReleaseReply(reply: unknown): ReleaseReply {
  const number = Number(reply);
  return { wasHeld: number % 2 === 1, repeat: number >= 2 };
}

/** Decodes the replies for several locks. Each reply may be an error. */
function eachOf<T>(replies: unknown, decode: (reply: unknown) => T): readonly (T | Error)[] {
  return (replies as unknown[]).map((each) => (each instanceof Error ? each : decode(each)));
}

/** The replies to several requests. Neither is defined if all of them were past their deadline. */
export interface RepliesOfBatch<Reply> {
  /** The same reply to all. */
  readonly ofAll?: Reply;
  /** A reply or an error for each. */
  readonly ofEach?: readonly (Reply | Error)[];
}

/** The reply to several acquire requests. */
export interface AcquireBatchReply extends RepliesOfBatch<DeadlineReply> {
  /** Server time in µs. */
  readonly now: number;
}

function toDeadlineReply(reply: readonly unknown[]): DeadlineReply {
  const [status, value, now] = reply.slice(0, 3).map(Number);
  if (status === GRANTED) return { status, value, now, tokens: Number(reply[3]), more: Number(reply[4]) === 1 };
  const ahead = reply[6] === undefined ? undefined : Number(reply[6]);
  return { status, value, now, ...holderIn(reply.slice(3)), more: Number(reply[5]) === 1, ahead };
}

/** Decodes what follows in a reply if others hold the lock. */
function holderIn([holder, count]: readonly unknown[]): Pick<DeadlineReply, 'holder' | 'count'> {
  return { holder: holder as string | undefined, count: Number(count) || undefined };
}

/**
 * Decodes the reply of both acquire scripts.
 * @param from knows the local moment of a server time in µs.
 */
export function decodeAcquireReply(
  { keys }: AcquireRequest,
  { status, value, nth, tokens = 1, holder, count, ahead, more }: DeadlineReply,
  from: ServerClock | undefined,
): AcquireReply {
  if (status === PAST_DEADLINE) return { status: 'expired' };
  if (status === GRANTED || status === GRANTED_BEFORE) {
    // How many tokens an earlier grant has reserved is not known: the reply counts one.
    return { status: 'granted', token: value, tokens };
  }
  const subject = nth === undefined ? undefined : { key: keys[nth - 1] };
  if (status === PERMITS_MISMATCH) return { status: 'permits-mismatch', permits: value, ...subject };
  const remainingMs = value === UNKNOWN_MS ? undefined : toRemainingMs(value);
  const hint = holder === undefined ? undefined : hintOf(holder, count, from);
  const isFree = more === true && holder === '' ? true : undefined;
  const isForeign = holder !== undefined && holder !== '' && hint === undefined ? true : undefined;
  return { status: 'held', queued: status === QUEUED, remainingMs, ...subject, isFree, isForeign, holder: hint, ahead };
}

/** Decodes the holder in a reply. Undefined for a value that another system wrote. */
function hintOf(value: string, count: number | undefined, from: ServerClock | undefined): HolderHint | undefined {
  const other = otherWireOf(value);
  if (other !== undefined) {
    return { instanceId: other.instanceId, wireVersions: { holder: other.version, own: WIRE_VERSION } };
  }
  const [, instanceId, token] = HOLDER.exec(value) ?? [];
  if (instanceId === undefined) return undefined;
  if (count !== undefined) return { instanceId, count };
  // Tokens are the server's time, unless its clock was set back.
  const since = token === undefined ? undefined : from?.localLowerBound(Number(token));
  return { instanceId, since };
}

/** The keys of a lock: the lock, the last fencing token, and its queue, which also holds its sharers. */
export type LockKeys = readonly [lock: string, fence: string, queue: string];

/** Returns the keys of a lock. */
export function keysOf(key: string, fence: string): LockKeys {
  return [key, fence, helperKey(key, 'queue')];
}

/** Returns the key of the lock that a lock's own key or its queue belongs to. Other helper keys belong to none. */
export function lockOf(name: string): string | undefined {
  const helper = name.indexOf('|');
  if (helper === -1) return name;
  return name.slice(helper) === '|queue' ? name.slice(0, helper) : undefined;
}

/**
 * Returns whether a listing finds the lock by its other key: by its own if it is held exclusively, otherwise by its
 * queue. A lock that changes between the two during the listing may be found twice or not at all.
 */
export function isFoundElsewhere(_key: string, { holder, mode = 'exclusive' }: LockState, byOwnKey: boolean): boolean {
  return byOwnKey !== (holder !== undefined && mode === 'exclusive');
}

/** What the scripts call the locks and the owners of one module instance. */
export interface ScriptNames {
  /** Stands in every entry. */
  readonly secret: string;
  /** Returns the keys of a lock as they are sent. */
  keysOf(key: string): LockKeys;
}

/** Returns the keys of several locks under one hash tag: their common fence, then the lock and the queue of each. */
export function keysOfAll(keys: readonly string[], names: ScriptNames): readonly string[] {
  const all: string[] = [];
  for (const key of keys) {
    const [lock, fence, queue] = names.keysOf(key);
    if (all.length === 0) all.push(fence);
    all.push(lock, queue);
  }
  return all;
}

/** Returns the three arguments from which the scripts for several locks make the entries of these requests. */
export function entriesOfAll(requests: readonly LockOwnership[], { secret }: ScriptNames): readonly string[] {
  const [{ owner, mode }] = requests;
  const { length } = instancePartOf(owner);
  const attempts = requests.map((request) => request.owner.slice(length)).join(' ');
  // The prefix stands at the beginning, so not in the end of each entry.
  const rest = encodeEntry({ owner: '', mode }, secret).slice(WIRE_PREFIX.length);
  return [WIRE_PREFIX + owner.slice(0, length), attempts, rest];
}

/** Returns a release of an owner that no attempt has: it does nothing but hand the lock to further sharers. */
export function furtherHandoffs({ keys, owner, mode, handoffMs, tokens }: AcquireRequest): ReleaseRequest {
  return { keys, owner: `${instancePartOf(owner)}0`, mode, handoffMs, tokens, closedForMs: 0 };
}

/** Returns the same after a release by force, which has no owner. */
export function furtherHandoffsOf({ key, handoffMs, tokens }: ForceReleaseRequest): ReleaseRequest {
  return { keys: [key], owner: 'force:0', mode: 'shared', handoffMs, tokens, closedForMs: 0 };
}

/** Returns the part of an owner that all owners of its instance have. */
export function instancePartOf(owner: string): string {
  return owner.slice(0, owner.lastIndexOf(':') + 1);
}

/** Returns the keys and arguments of the extend script for one lock. */
export function extendCall(request: ExtendRequest, names: ScriptNames): Call {
  const [key] = request.keys;
  const [lock, , queue] = names.keysOf(key);
  return {
    key,
    keys: [request.mode === 'exclusive' ? lock : queue],
    args: [encodeEntry(request, names.secret), wholeMs(request.leaseMs)],
  };
}

/** A holder that shares a lock. Its token is not kept, because tokens do not order concurrent holders. */
interface Sharer extends HolderInfo {
  readonly mode: LockMode;
}

export interface QueueState {
  readonly sharers: readonly Sharer[];
  readonly waiting: readonly WaiterInfo[];
}

/**
 * Returns the state of a lock from its exclusive holder and its queue. Null if nobody holds it or waits for it.
 *
 * @param from knows the local moment of a server time in µs.
 */
export function stateOf(
  exclusive: HolderInfo | null,
  { sharers, waiting }: QueueState,
  from: ServerClock | undefined,
): LockState | null {
  const [first = withSince(exclusive, from), ...others] = sharers;
  if (first !== null) return { ...first, others, waiting };
  return waiting.length === 0 ? null : { waiting };
}

/** Adds when a holder got the lock. Tokens are the server's time, unless its clock was set back. */
function withSince(holder: HolderInfo | null, from: ServerClock | undefined): HolderInfo | null {
  return holder?.token === undefined ? holder : { ...holder, since: from?.localLowerBound(holder.token) };
}

/** Decodes pairs of an entry and the remaining life of its lease, which is 0 for a waiter. */
function decodeQueue(list: readonly (string | number)[]): QueueState {
  const sharers: Sharer[] = [];
  const waiting: WaiterInfo[] = [];
  for (let i = 0; i < list.length; i += 2) {
    const { owner, mode, wireVersion } = decodeEntry(String(list[i]));
    const remainingMs = Number(list[i + 1]);
    const id = instanceOf(owner);
    const wire = wireVersion === undefined ? undefined : { wireVersion };
    if (remainingMs > 0) sharers.push({ holder: id, mode, remainingMs, token: undefined, ...wire });
    else if (remainingMs === 0) waiting.push({ waiter: id, mode, ...wire });
    // Only another wire version knows whether its lease is over.
    else if (wire !== undefined) sharers.push({ holder: id, mode, remainingMs: 0, token: undefined, ...wire });
  }
  return { sharers, waiting };
}

/** Decodes `v1-<instanceId>:<attempt>/<secret> <token>`. The value of another system is returned as the holder. */
function decodeHolder(value: string, ttl: number | string): HolderInfo {
  const other = otherWireOf(value);
  if (other !== undefined) {
    const { instanceId, version } = other;
    return { holder: instanceId, remainingMs: toRemainingMs(ttl), token: undefined, wireVersion: version };
  }
  const [, holder = value, token] = VALUE.exec(value) ?? [];
  return { holder, remainingMs: toRemainingMs(ttl), token: token === undefined ? undefined : Number(token) };
}
