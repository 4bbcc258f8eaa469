import { helperKey } from '../../keys/resource-key.js';
import { isOne, RedisScript, toExtendReply } from '../../redis/redis-script.js';
import { forcedRelease } from '../../redis/forced-release.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import type { AcquireReply, ExtendReply, LockState } from '../../contract/store.js';
import type { ExpiryClock } from './expiry-clock.js';
import { GRANTED, heldReply, type Protocol, stateOf } from './protocol.js';
import { scripts } from './scripts.js';

const ACQUIRE = new RedisScript(scripts.acquire, (reply) =>
  Array.isArray(reply) ? (reply as [held: string, owner?: string]) : undefined,
);
const EXTEND = new RedisScript(scripts.extend, toExtendReply);
const RELEASE = new RedisScript(scripts.release, isOne);
const FORCE_RELEASE = new RedisScript(scripts.forceRelease, isOne);
const INSPECT = new RedisScript(
  scripts.inspect,
  (reply) => reply as [held: string, ttl: unknown, owner?: string | null] | null,
);

/**
 * Runs each step as one script. A second key, `{key}||holder`, names the owner, and shows whether another client has
 * written the key since. Other clients do not know it. So a request does no harm if it is repeated, or arrives late.
 */
export class WithScripts implements Protocol {
  constructor(
    private readonly connection: RedisConnection,
    private readonly time: ExpiryClock,
  ) {}

  async acquire(key: string, owner: string, leaseMs: number): Promise<AcquireReply> {
    const held = await ACQUIRE.run(this.connection, keysOf(key), this.argsOf(owner, leaseMs));
    return held === undefined ? GRANTED : heldReply(this.time, ...held);
  }

  extend(key: string, owner: string, leaseMs: number): Promise<ExtendReply> {
    return EXTEND.run(this.connection, keysOf(key), this.argsOf(owner, leaseMs));
  }

  release(key: string, owner: string, closedForMs: number): Promise<boolean> {
    const args = this.argsOf(owner, closedForMs);
    if (closedForMs === 0) args[4] = '0';
    return RELEASE.run(this.connection, keysOf(key), args);
  }

  async inspect(key: string): Promise<LockState | null> {
    const found = await INSPECT.run(this.connection, keysOf(key), []);
    return found === null ? null : stateOf(this.time, found[0], found[1], found[2] ?? undefined);
  }

  forceRelease(key: string): Promise<boolean> {
    const { connection, time } = this;
    return forcedRelease(connection.clock, connection.requestTimeoutMs, async (checkTime) => {
      const found = await INSPECT.run(connection, keysOf(key), []);
      if (found === null || time.isExpired(found[0])) return false;
      // In the client's queue, requests wait through an outage.
      checkTime();
      const { losses } = connection;
      const [held, , owner] = found;
      // By a clock of 0, the owner's lease is not over.
      const ended = owner
        ? RELEASE.run(connection, keysOf(key), [owner, '0', '0', '0', '0', '1'])
        : FORCE_RELEASE.run(connection, keysOf(key), [held]);
      if (await ended) return true;
      // The client has sent the script again, and its first run may have deleted the key.
      if (connection.losses !== losses) throw new Error('the connection ended before the reply');
      return false;
    });
  }

  /** Returns the arguments that all scripts of an owner take. */
  private argsOf(owner: string, leaseMs: number): string[] {
    const { value, ttl, lengthMs } = this.time.expiryAfter(leaseMs);
    const { unitMs } = this.time;
    return [owner, ...[this.time.now(), value, Math.floor(lengthMs), ttl * unitMs, unitMs].map(String)];
  }
}

/** Returns the key of the lock and the key of its holder. */
function keysOf(key: string): readonly [lock: string, holder: string] {
  return [key, helperKey(key, 'holder')];
}
