import type { Clock } from '../../core/time/clock.js';
import type { ExtendReply } from '../../core/store/lock-store.js';
import { helperKey } from '../../core/keys/resource-key.js';
import { isOne, toExtendReply } from '../../redis/decode.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { RedisScript } from '../../redis/redis-script.js';
import { scripts } from './scripts.js';
import type { Expiry, ExpiryClock } from './expiry-clock.js';
import type { HeldLease } from './held-leases.js';
import type { Renewal, TakeReply, TakeRequest, TimestampProtocol } from './timestamp-protocol.js';

const ACQUIRED = 1;
const TAKEN_OVER = 2;
const PAST_DEADLINE = -1;

const acquireScript = new RedisScript(scripts.acquire, (reply) => {
  const [status, now, held, owner] = reply as [status: number | string, now: string, held?: string, owner?: string];
  return { status: Number(status), now: Number(now), held, owner };
});
const extendScript = new RedisScript(scripts.extend, toExtendReply);
const forceReleaseScript = new RedisScript(scripts.forceRelease, isOne);
const releaseScript = new RedisScript(scripts.release, isOne);

/**
 * Runs each step as one script. It compares the clients' wall clocks, as all clients of the key do, but checks
 * deadlines by the server's clock. A second key, `{key}|holder`, names the owner. ioredis repeats a script whose reply
 * was lost, and a repeated release must not delete the lock of the next client, which may have the same value. Other
 * clients do not know that key.
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

  async take(request: TakeRequest): Promise<TakeReply> {
    const reply = await this.takeOnce(request);
    // The server's clock may have been set forward. The reply has corrected the known time, so the second try can
    // succeed.
    return reply.status === 'expired' ? this.takeOnce(request) : reply;
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly (ExtendReply | Error)[]> {
    const until = this.clock.now() + this.requestTimeoutMs;
    if (!this.ready) await this.prepare('', until).catch(() => undefined);
    if (!this.ready) return renewals.map(() => 'unknown');
    const calls = renewals.map(({ lease, expiry }) => {
      const args = this.extendArgs(lease, expiry);
      lease.onWrite(expiry);
      return { keys: keysOf(lease.key), args };
    });
    return extendScript.runAll(this.connection, calls);
  }

  async end(lease: HeldLease): Promise<boolean> {
    return releaseScript.run(this.connection, keysOf(lease.key), this.proofOf(lease));
  }

  /**
   * Deletes the lock of any client, if the key still has that value, and the second key still names that owner, or none
   * if it is empty. Returns false otherwise.
   */
  force(key: string, held: string, owner: string): Promise<boolean> {
    return forceReleaseScript.run(this.connection, keysOf(key), [held, owner]);
  }

  async keep(lease: HeldLease, expiry: Expiry): Promise<boolean> {
    const args = this.extendArgs(lease, expiry);
    lease.onWrite(expiry);
    return (await extendScript.run(this.connection, keysOf(lease.key), args)) === 'renewed';
  }

  private async takeOnce({ key, owner, leaseMs, expiresAt, isWanted }: TakeRequest): Promise<TakeReply> {
    const { connection, time, clock } = this;
    const deadline = connection.microsAt(expiresAt);
    const sentAt = clock.now();
    if (deadline === undefined || sentAt >= expiresAt || !isWanted()) return { status: 'expired' };
    const now = time.now();
    const expiry = time.expiryAfter(leaseMs);
    const args = [owner, String(now), String(expiry.value), this.ttlMs(expiry), time.unit, String(deadline)];
    const reply = await acquireScript.run(connection, keysOf(key), args);
    connection.observeTime(reply.now, sentAt);
    if (reply.status === PAST_DEADLINE) return { status: 'expired' };
    if (reply.status === ACQUIRED || reply.status === TAKEN_OVER) return { status: 'granted', expiry };
    return { status: 'held', held: reply.held, owner: reply.owner };
  }

  private extendArgs(lease: HeldLease, expiry: Expiry): string[] {
    return [...this.proofOf(lease), String(expiry.value), this.ttlMs(expiry)];
  }

  /** Returns the arguments by which a script checks that the lock is still ours. */
  private proofOf({ owner, range: [lowest, highest], raceUntil, overAt }: HeldLease): string[] {
    return [owner, String(lowest), String(highest), this.micros(raceUntil), this.micros(overAt)];
  }

  private ttlMs({ ttl }: Expiry): string {
    return String(ttl * this.time.unitMs);
  }

  /** Returns the server's time at a local moment. If it is unknown, it returns 1970, and the script does nothing. */
  private micros(at: number): string {
    const micros = at === -Infinity ? 0 : (this.connection.microsAt(at) ?? 0);
    return String(micros).padStart(16, '0');
  }
}

/** Returns the key of the lock and the key of its holder. */
function keysOf(key: string): readonly [lock: string, holder: string] {
  return [key, helperKey(key, 'holder')];
}
