import { RedisScript, toExtendReply, toRemainingMs } from '../../redis/redis-script.js';
import type { AcquireReply, LockState } from '../../contract/store.js';
import { scripts } from './scripts.js';

/** What the release script returns in place of the number of receivers. */
export const PUBLISH_REFUSED = -1;
export const NOT_HELD = -2;

/** The acquire and the inspect script also take the key of the fencing token if the lock has one. */
export const ACQUIRE = new RedisScript(scripts.acquire, decodeAcquire);
export const EXTEND = new RedisScript(scripts.extend, toExtendReply);
export const INSPECT = new RedisScript(scripts.inspect, decodeInspected);
export const RELEASE = new RedisScript(scripts.release, Number);

/** Redisson's messages: one waiter of each process may continue, or all of them. Here each process has one waiter. */
export const UNLOCKED: readonly string[] = ['0', '1'];

/** Returns the pub/sub channel of a lock. */
export function channelOf(name: string): string {
  return helperNameOf('redisson_lock__channel', name);
}

/** Returns the key of a lock's last fencing token. */
export function tokenKeyOf(name: string): string {
  return helperNameOf('redisson_lock_token', name);
}

/** The holder of a lock, with its field in the hash. */
type Holder = LockState & { readonly holder: string; readonly token: number | undefined; readonly field: string };

function decodeAcquire(reply: unknown): AcquireReply {
  const [isGranted, value, holder] = reply as [isGranted: unknown, value: unknown, holder: string];
  // Redis counts the tokens one by one.
  if (Number(isGranted) === 1) return { status: 'granted', token: Number(value) || undefined, tokens: 1 };
  const instanceId = instanceIn(holder);
  return { status: 'held', queued: false, remainingMs: toRemainingMs(value), holder: { instanceId } };
}

function decodeInspected(reply: unknown): Holder | null {
  if (reply === null) return null;
  const [field, ttl, token] = reply as [field: string, ttl: unknown, token?: string | null];
  const last = token === undefined || token === null ? undefined : Number(token);
  return { holder: instanceIn(field), remainingMs: toRemainingMs(ttl), token: last, field };
}

/** Returns what a field begins with: an instance's id, or the UUID of a client of Redisson. */
function instanceIn(field: string): string {
  return field.split(':', 1)[0];
}

/** Returns the name of a helper key or channel, as Redisson builds it: in the slot of the lock. */
function helperNameOf(kind: string, name: string): string {
  return name.includes('{') ? `${kind}:${name}` : `${kind}:{${name}}`;
}
