import { helperKey, keyOfHelper } from '../../keys/resource-key.js';
import { instanceOf } from '../../contract/instance-id.js';
import { withoutForgery } from '../../common/format-value.js';
import type { HolderInfo, HolderWork, LockState, WaiterInfo } from '../../contract/lock-state.js';
import { isOne, toRemainingMs } from '../../redis/redis-script.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import type { AcquireReply, ExtendReply, LockMode, TransferReply } from '../../contract/store.js';

/** The version of what instances of different releases read of each other in Redis. The scripts also contain it. */
export const WIRE_VERSION = 2;

/** What every value and every entry of this version begins with. Those of other versions are foreign values. */
const VERSION = `v${WIRE_VERSION}-`;

/** What every version writes: the value of a lock that is shared, or the beginning of a value or an entry. */
const OF_ANY_VERSION = /^v(\d{1,6})-(?:\*$|[^\w-]*([\w-]+):)/;

/**
 * `v2-<instance>:<attempt>`, behind `!` if its owner has closed the lock, or behind `!!` if its work is done. A mode
 * may follow, or a token, and behind the token the method and the label of the caller, or the limit of a lock that was
 * detached.
 */
const ENTRY = /^v2-(!{0,2})([\w-]+):([^ ]+)(?: ([^ ]*)(?: \d+| ([^ ]*) ([^ ]*))?)?$/;

/** `<owner> <mode> <key>`. The mode is `-` for an exclusive owner. */
const WAKE = /^([\w-]+:\d+) ([-*]|\d{1,15}) ([^|]+)$/;

/** A token has more digits than any number of permits. */
const TOKEN_DIGITS = 16;

/** An owner and its mode. */
interface Owned {
  readonly owner: string;
  readonly mode: LockMode;
}

/** Returns what the scripts keep for an owner: `v2-<owner>`, followed by ` *` or by ` <n>` if it shares the lock. */
export function entryOf({ owner, mode }: Owned): string {
  if (mode === 'exclusive') return VERSION + owner;
  return `${VERSION}${owner} ${mode === 'shared' ? '*' : mode}`;
}

/** The longest method or label in Redis, percent-encoded. */
const LONGEST_ENCODED = 120;

/** What needs no escape. */
const PLAIN = /^[\w.:/-]*$/;

/**
 * Returns ` <method> <label>`, which the scripts keep behind the token of an exclusive owner. Empty without both, and
 * for an owner that shares the lock.
 */
export function aboutOf({ mode, method, label }: Pick<Owned, 'mode'> & HolderWork): string {
  if (mode !== 'exclusive' || (method === undefined && label === undefined)) return '';
  return ` ${encodeText(method)} ${encodeText(label)}`;
}

function encodeText(text = ''): string {
  const start = text.slice(0, LONGEST_ENCODED);
  if (PLAIN.test(start)) return start;
  let encoded = '';
  for (const char of start) {
    // A half of a surrogate pair has no encoding.
    const next = /\p{Cs}/u.test(char) ? '%3F' : encodeURIComponent(char);
    if (encoded.length + next.length > LONGEST_ENCODED) break;
    encoded += next;
  }
  return encoded;
}

/** Returns a decoded text. Undefined if it is empty, or if another program wrote what is not percent-encoded. */
function decodeText(encoded: string | undefined): string | undefined {
  if (encoded === undefined || encoded === '') return undefined;
  try {
    return withoutForgery(decodeURIComponent(encoded.slice(0, LONGEST_ENCODED)));
  } catch {
    return undefined;
  }
}

/** Returns the last part of an instance's channel, as the scripts make it from an entry. */
export function channelEnd(instanceId: string): string {
  return VERSION + instanceId;
}

/** The keys of a lock: its value, the last fencing token, its queue, and the entries that share it. */
export interface LockKeys {
  readonly lock: string;
  readonly fence: string;
  readonly queue: string;
  readonly holders: string;
}

/** Returns the keys of a lock. @param prefix what the client puts before each, if they have to be in one slot. */
export function keysOf(lock: string, fence: string, prefix = ''): LockKeys {
  return { lock, fence, queue: helperKey(lock, 'queue', prefix), holders: helperKey(lock, 'holders', prefix) };
}

/** Returns the key of the lock that a lock's own key or its queue belongs to. Other helper keys belong to none. */
export function lockOf(name: string, prefix = ''): string | undefined {
  return name.includes('|') ? keyOfHelper(name, 'queue', prefix) : name;
}

/** Decodes `<owner> <mode> <key>`, the message that makes an owner look again. Undefined for any other text. */
export function decodeWake(message: string): (Owned & { readonly key: string }) | undefined {
  const [, owner, mode, key] = WAKE.exec(message) ?? [];
  if (key === undefined) return undefined;
  return { owner, mode: modeIn(mode === '-' ? undefined : mode), key };
}

type ServerClock = Pick<RedisConnection, 'localTimeOf'>;

/**
 * Decodes a reply of the acquire script. A client with `stringNumbers` receives numbers as strings.
 *
 * @param from knows the local moment of a server time in µs.
 * @throws Error if no script replies so.
 */
export function decodeAcquire(reply: unknown, from: ServerClock | undefined): AcquireReply {
  if (!Array.isArray(reply)) return { status: 'granted', token: numberIn(reply), tokens: TOKENS };
  const [queued, remaining, holder = '', sharers, ahead] = reply as readonly unknown[];
  if (numberIn(queued) === -1) return { status: 'permits-mismatch', permits: numberIn(remaining) };
  const own = decode(String(holder));
  const other = own === undefined ? otherVersionOf(String(holder)) : undefined;
  const remainingMs = numberIn(remaining);
  const before = numberIn(ahead);
  const since = own?.token === undefined ? undefined : from?.localTimeOf(own.token);
  const count = numberIn(sharers);
  return {
    status: 'held',
    queued: numberIn(queued) === 1,
    remainingMs: remainingMs < -1 ? undefined : toRemainingMs(remainingMs),
    ahead: before < 0 ? undefined : before,
    isFree: holder === '' ? true : undefined,
    isForeign: holder !== '' && own === undefined ? true : undefined,
    isDone: own?.isDone === true ? true : undefined,
    holder:
      own === undefined
        ? other && { instanceId: other.instanceId, wireVersions: { holder: other.wireVersion, own: WIRE_VERSION } }
        : { instanceId: own.instanceId, ...(count > 0 ? { count } : { since, ...own.work }) },
  };
}

/** How many tokens a grant has: one for the holder, and one for each caller to which it passes the lock. */
const TOKENS = 17;

/** Returns whether a release script found that the owner held the lock. */
export function decodeRelease(reply: unknown): boolean {
  return numberIn(reply) === 1;
}

/** Decodes a reply of the extend script. */
export function decodeExtend(reply: unknown): ExtendReply {
  numberIn(reply);
  return isOne(reply) ? 'renewed' : 'lost';
}

/** Decodes a reply of the transfer script. */
export function decodeTransfer(reply: unknown): TransferReply {
  if (!Array.isArray(reply)) return { status: numberIn(reply) === 0 ? 'free' : 'others' };
  const [token, restMs] = (reply as readonly unknown[]).map(numberIn);
  return { status: 'transferred', token, restMs: restMs === -1 ? undefined : restMs };
}

/** The holder of a lock that others do not share. */
export interface ExclusiveHolder extends HolderInfo {
  /** The SHA-1 of the value, by which a release by force names it. */
  readonly digest: string;
  readonly isDone: boolean;
}

/** Decodes a reply of the inspect script. Null if nobody has the lock, or if others share it. */
export function decodeInspected(reply: unknown): ExclusiveHolder | null {
  if (reply === null || reply === undefined) return null;
  const [value, ttl, digest] = reply as [value: string, ttl: unknown, digest: string];
  const own = decode(value);
  const { instanceId: holder = value, wireVersion } = decodeAny(value) ?? {};
  const remainingMs = toRemainingMs(ttl);
  const isDone = own?.isDone === true;
  return { holder, remainingMs, token: own?.token, wireVersion, digest, isDone, ...own?.work };
}

/** An owner that shares a lock. Its token is not kept, because tokens do not order concurrent holders. */
export interface Sharer extends HolderInfo {
  readonly entry: string;
  readonly mode: LockMode;
}

/** Decodes a reply of the script that reads the sharers. */
export function decodeHolders(reply: unknown): readonly Sharer[] {
  const list = reply as readonly unknown[];
  return Array.from({ length: list.length / 2 }, (_, i): Sharer => {
    const entry = String(list[2 * i]);
    const { instanceId: holder = instanceOf(entry), mode = 'shared', wireVersion } = decodeAny(entry) ?? {};
    return { entry, holder, mode, remainingMs: Number(list[2 * i + 1]), token: undefined, wireVersion };
  });
}

/** Decodes a reply of the script that reads the queue. */
export function decodeQueue(reply: unknown): readonly WaiterInfo[] {
  return (reply as readonly unknown[]).map((each): WaiterInfo => {
    const entry = String(each);
    const { instanceId: waiter = instanceOf(entry), mode = 'exclusive', wireVersion } = decodeAny(entry) ?? {};
    return wireVersion === undefined ? { waiter, mode } : { waiter, mode, wireVersion };
  });
}

/**
 * Returns the state of a lock. Null if nobody holds it or waits for it. Readers beside a value have lost the lock.
 *
 * @param from knows the local moment of a server time in µs.
 */
export function stateOf(
  exclusive: ExclusiveHolder | null,
  sharers: readonly Sharer[],
  waiting: readonly WaiterInfo[],
  from: ServerClock | undefined,
): LockState | null {
  if (exclusive !== null) {
    const { holder, remainingMs, token, wireVersion, isDone, method, label } = exclusive;
    // Tokens are the server's time, unless its clock was set back.
    const since = token === undefined ? undefined : from?.localTimeOf(token);
    return { holder, remainingMs, token, since, wireVersion, isDone, method, label, others: [], waiting };
  }
  const [first, ...others] = sharers.map(({ entry: _entry, ...sharer }) => sharer);
  if (first !== undefined) return { ...first, others, waiting };
  return waiting.length === 0 ? null : { waiting };
}

/** Decodes an entry or a value. Undefined for the value of another client or of another version. */
function decode(text: string) {
  const [, mark, instanceId, , rest, method, label] = ENTRY.exec(text) ?? [];
  if (instanceId === undefined) return undefined;
  const isToken = rest !== undefined && rest.length >= TOKEN_DIGITS;
  const token = isToken ? Number(rest) : undefined;
  const mode = isToken ? 'exclusive' : modeIn(rest);
  const work = { method: decodeText(method), label: decodeText(label) };
  return { instanceId, token, mode, isDone: mark === '!!', work } as const;
}

/** What an instance wrote. Its mode is not known if its version is another one. */
interface Written {
  readonly instanceId: string;
  readonly mode?: LockMode;
  readonly wireVersion?: number;
}

/** Decodes an entry or a value of any version. Undefined for the value of another client. */
function decodeAny(text: string): Written | undefined {
  return decode(text) ?? otherVersionOf(text);
}

/** Returns which version wrote a text. Undefined for that of this version, and for the value of another client. */
function otherVersionOf(text: string): Required<Omit<Written, 'mode'>> | undefined {
  const [, version, instanceId = text] = OF_ANY_VERSION.exec(text) ?? [];
  const wireVersion = Number(version);
  return version === undefined || wireVersion === WIRE_VERSION ? undefined : { instanceId, wireVersion };
}

function modeIn(text: string | undefined): LockMode {
  if (text === undefined) return 'exclusive';
  return text === '*' ? 'shared' : Number(text);
}

/** @throws Error for anything but a number. A server or a proxy may send what no script returns. */
function numberIn(reply: unknown): number {
  const number = typeof reply === 'string' || typeof reply === 'number' ? Number(reply) : Number.NaN;
  if (Number.isNaN(number)) throw new Error('the reply is not one of a script for locks');
  return number;
}
