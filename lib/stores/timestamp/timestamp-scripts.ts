import type { Clock } from '../../core/time/clock.js';
import type { ExtendReply } from '../../core/store/lock-store.js';
import { helperKey } from '../../core/keys/resource-key.js';
import { luaScripts } from '../../lua/index.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { RedisScript } from '../../redis/redis-script.js';
import type { HeldLease, Expiry } from './held-leases.js';
import { tellOutcome } from './timestamp-outcomes.js';
import type { ExpiryClock } from './expiry-clock.js';
import type { Renewal, Take, Taken, TimestampProtocol } from './timestamp-protocol.js';

const ACQUIRED = 1;
const TAKEN_OVER = 2;
const PAST_DEADLINE = -1;

const askScript = new RedisScript(luaScripts.timestampAsk, (reply) => {
  const [status, now, held] = reply as [status: number | string, now: string, held?: string];
  return { status: Number(status), now: Number(now), held };
});
const extendScript = new RedisScript(luaScripts.timestampExtend, (reply) => Number(reply) === 1);
const releaseScript = new RedisScript(luaScripts.timestampRelease, (reply) => Number(reply) === 1);

/**
 * Each step is one script. It compares the clients' times, as all clients of the key do, but it is the server's own clock
 * by which a request that was under way for too long has no effect. And because ioredis sends again what was not answered
 * when a connection ended, a second key tells which of us has got the lock: a release that has run already must not delete
 * the lock of whoever came behind it, although the values may be equal. Other clients know nothing of that key.
 */
export class TimestampScripts implements TimestampProtocol {
  constructor(
    private readonly connection: RedisConnection,
    private readonly time: ExpiryClock,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
  ) {}

  get ready(): boolean {
    return this.connection.ready && this.connection.microsAt(0) !== undefined;
  }

  prepare(_key: string, until: number): Promise<void> {
    return this.connection.synchronise(until);
  }

  async take(ask: Take): Promise<Taken> {
    const reply = await this.takeOnce(ask);
    // The server's clock may have been set forward since it was last heard: its answer has told, so ask once more.
    return reply.status === 'expired' ? this.takeOnce(ask) : reply;
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly ExtendReply[]> {
    const until = this.clock.now() + this.requestTimeoutMs;
    if (!this.ready) await this.prepare('', until).catch(() => undefined);
    if (!this.ready) return renewals.map(() => 'unknown');
    const calls = renewals.map(({ lease, stamp }) => {
      const args = this.extendArgs(lease, stamp);
      lease.writing(stamp);
      return { keys: keysOf(lease.key), args };
    });
    try {
      const replies = await extendScript.runAll(this.connection, calls);
      return replies.map((reply) => {
        if (reply instanceof Error) return 'unknown';
        return reply ? 'renewed' : 'lost';
      });
    } catch {
      return renewals.map(() => 'unknown');
    }
  }

  async end(lease: HeldLease): Promise<boolean> {
    return releaseScript.run(this.connection, keysOf(lease.key), this.proofOf(lease));
  }

  async keep(lease: HeldLease, stamp: Expiry): Promise<boolean> {
    const args = this.extendArgs(lease, stamp);
    lease.writing(stamp);
    return extendScript.run(this.connection, keysOf(lease.key), args);
  }

  private async takeOnce({ key, owner, leaseMs, expiresAt, isWanted }: Take): Promise<Taken> {
    const { connection, time, clock } = this;
    const deadline = connection.microsAt(expiresAt);
    const sentAt = clock.now();
    if (deadline === undefined || sentAt >= expiresAt || !isWanted()) return { status: 'expired' };
    const now = time.now();
    const stamp = time.expiryAfter(leaseMs);
    const args = [owner, String(now), String(stamp.value), this.ttlMs(stamp), time.unit, String(deadline)];
    const reply = await askScript.run(connection, keysOf(key), args);
    connection.heard(reply.now, sentAt);
    if (reply.status === PAST_DEADLINE) return { status: 'expired' };
    if (reply.status === ACQUIRED || reply.status === TAKEN_OVER) {
      tellOutcome(key, reply.status === ACQUIRED ? 'acquired' : 'takenOver');
      return { status: 'granted', stamp };
    }
    tellOutcome(key, 'stillHeld');
    return { status: 'held', held: reply.held };
  }

  private extendArgs(lease: HeldLease, stamp: Expiry): string[] {
    return [...this.proofOf(lease), String(stamp.value), this.ttlMs(stamp)];
  }

  /** By what a script knows that the lock is ours still. */
  private proofOf({ owner, range: [lowest, highest], overAt }: HeldLease): string[] {
    return [owner, String(lowest), String(highest), this.micros(overAt)];
  }

  private ttlMs({ ttl }: Expiry): string {
    return String(ttl * this.time.unitMs);
  }

  /** The server's time at a local moment; without it, a moment long gone, so that nothing is done. */
  private micros(at: number): string {
    return String(this.connection.microsAt(at) ?? 0).padStart(16, '0');
  }
}

/** The lock, and who got it by a script. */
function keysOf(key: string): readonly [lock: string, holder: string] {
  return [key, helperKey(key, 'holder')];
}
