import type { ExtendReply, ShortestLease } from '../../core/store/lock-store.js';
import { type Clock, withTimeout } from '../../core/time/clock.js';
import type { ServerClient } from '../../redis/client-port.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { toError } from '../../redis/redis-errors.js';
import type { Expiry, ExpiryClock } from './expiry-clock.js';
import type { HeldLease } from './held-leases.js';
import type { Renewal, TakeReply, TakeRequest, TimestampProtocol } from './timestamp-protocol.js';

/** After this number of lost races the lock counts as held. */
const MAX_ROUNDS = 10;

/** Nothing is written or deleted in the last part of a lease: this fraction, or `requestTimeoutMs` if that is less. */
const MARGIN = 1 / 4;

/** A quarter of this lease is longer than a request takes on a busy machine. */
export const SHORTEST_PLAIN_LEASE: ShortestLease = {
  ms: 1_000,
  reason: 'timestamp({ scripts: false }) deletes a lock with two requests, and a shorter one could expire between them',
};

/**
 * Runs each step as several plain commands. The algorithm allows for commands of other clients between them. It does
 * not allow for a command that is delayed in the network until its own lease has expired.
 */
export class TimestampCommands implements TimestampProtocol {
  private reaching: Promise<unknown> | undefined;
  private readonly client: ServerClient;

  constructor(
    private readonly connection: RedisConnection,
    private readonly time: ExpiryClock,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
  ) {
    this.client = connection.client;
  }

  get ready(): boolean {
    return this.connection.ready;
  }

  prepare(key: string, until: number): Promise<void> {
    // The command waits in the client's queue until the connection is back. All callers share one command, so
    // commands do not pile up.
    this.reaching ??= this.get(key).finally(() => (this.reaching = undefined));
    const reached = this.reaching.then(
      () => undefined,
      (error: unknown) => {
        // An error on a ready connection concerns this key alone, for example that it holds another type.
        if (!this.ready) throw error;
      },
    );
    return withTimeout(this.clock, until - this.clock.now(), reached, () => undefined);
  }

  async take(request: TakeRequest): Promise<TakeReply> {
    const { key, leaseMs } = request;
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      if (!this.isCurrent(request)) return { status: 'expired' };
      const expiry = this.time.expiryAfter(leaseMs);
      const created = Number(await this.client.send('setnx', [key], [String(expiry.value)])) === 1;
      if (created) return this.grant(key, expiry);
      const held = await this.get(key);
      // The key was deleted meanwhile.
      if (held === null) continue;
      if (!this.time.isExpired(held)) return { status: 'held', held };
      if (!this.isCurrent(request)) return { status: 'expired' };
      const reply = await this.takeOver(key, held, leaseMs);
      if (reply !== undefined) return reply;
    }
    return { status: 'held', held: undefined };
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly (ExtendReply | Error)[]> {
    // In the client's queue a renewal would go stale before it is sent.
    if (!this.ready) return renewals.map(() => 'unknown');
    return Promise.all(renewals.map((renewal) => this.renewOne(renewal).catch(toError)));
  }

  async end(lease: HeldLease): Promise<boolean> {
    if (!(await this.isOurs(lease)) || this.isEnding(lease)) return false;
    return Number(await this.client.send('del', [lease.key])) === 1;
  }

  async keep(lease: HeldLease, expiry: Expiry): Promise<boolean> {
    return (await this.isOurs(lease)) && !this.isEnding(lease) && this.replace(lease, expiry);
  }

  /** Replaces an expired value by GETSET. Returns undefined if another client was faster. */
  private async takeOver(key: string, expired: string, leaseMs: number): Promise<TakeReply | undefined> {
    const { client, time } = this;
    const expiry = time.expiryAfter(leaseMs);
    const old = (await client.send('getset', [key], [String(expiry.value)])) as string | null;
    // Without a value, the key was deleted since the read, and nobody else was granted the lock. A new round would wait
    // for our own value.
    if (old === expired || old === null) return this.grant(key, expiry);
    // We have overwritten the winner's value. A value that expires later does no harm. One that expires earlier would
    // let others take over the winner's lock too soon.
    const winners = time.read(old);
    if (winners === undefined || winners > expiry.value) await client.send('set', [key], [old, 'XX']);
    return undefined;
  }

  private async grant(key: string, expiry: Expiry): Promise<TakeReply> {
    // The TTL only removes the key after a crash. Sent late, it could shorten the life of another client's key.
    if (!this.time.isOver(expiry)) await this.setTtl(key, expiry).catch(() => undefined);
    return { status: 'granted', expiry };
  }

  private async renewOne({ lease, expiry }: Renewal): Promise<ExtendReply> {
    const { overAt } = lease;
    if (!(await this.isOurs(lease))) return 'lost';
    if (this.isEnding(lease)) return 'unknown';
    if (!(await this.replace(lease, expiry))) return 'lost';
    // After the end of the lease the reply proves nothing: another client may have had the key in between.
    return this.clock.now() < overAt ? 'renewed' : 'lost';
  }

  private async isOurs(lease: HeldLease): Promise<boolean> {
    const held = await this.get(lease.key);
    if (held === null || this.time.isOver(lease)) return false;
    const value = this.time.read(held);
    if (lease.wrote(value)) return true;
    if (!lease.covers(value)) return false;
    // The loser of a race leaves no TTL. A later holder sets one.
    return Number(await this.client.send('pttl', [lease.key])) === -1 && this.time.isInRace(lease);
  }

  /**
   * Returns whether a write may arrive after the end of the lease. DEL and SET check nothing, and could then hit
   * another client's key.
   */
  private isEnding({ overAt, lengthMs }: HeldLease): boolean {
    return this.clock.now() + Math.min(lengthMs * MARGIN, this.requestTimeoutMs) >= overAt;
  }

  private async replace(lease: HeldLease, expiry: Expiry): Promise<boolean> {
    const unit = this.time.unit === 's' ? 'EX' : 'PX';
    lease.onWrite(expiry);
    const args = [String(expiry.value), unit, String(expiry.ttl), 'XX'];
    return (await this.client.send('set', [lease.key], args)) !== null;
  }

  private setTtl(key: string, { ttl }: Expiry): Promise<unknown> {
    return this.client.send(this.time.unit === 's' ? 'expire' : 'pexpire', [key], [String(ttl)]);
  }

  private get(key: string): Promise<string | null> {
    return this.client.send('get', [key]) as Promise<string | null>;
  }

  private isCurrent({ expiresAt, isWanted }: TakeRequest): boolean {
    return isWanted() && this.clock.now() < expiresAt;
  }
}
