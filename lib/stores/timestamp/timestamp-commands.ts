import { type Clock, withTimeout } from '../../core/time/clock.js';
import type { ExtendReply } from '../../core/store/lock-store.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import type { HeldLease, Expiry } from './held-leases.js';
import { tellOutcome } from './timestamp-outcomes.js';
import type { ExpiryClock } from './expiry-clock.js';
import type { Renewal, Take, Taken, TimestampProtocol } from './timestamp-protocol.js';

/** The plain commands, as ioredis has them. */
export interface PlainCommands {
  get(key: string): Promise<string | null>;
  setnx(key: string, value: string): Promise<unknown>;
  getset(key: string, value: string): Promise<string | null>;
  set(key: string, value: string, condition: 'XX'): Promise<unknown>;
  set(key: string, value: string, unit: 'EX' | 'PX', ttl: string, condition: 'XX'): Promise<unknown>;
  expire(key: string, seconds: string): Promise<unknown>;
  pexpire(key: string, ms: string): Promise<unknown>;
  pttl(key: string): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** A key that changes hands so often between two commands is held, whoever has it. */
const MOST_ROUNDS = 10;

/** A renewal stays away from the end of the lease by this part of it, or by the time that one request may take. */
const MARGIN = 1 / 4;

/**
 * Each step is several plain commands. Others may come between two of them, which the algorithm provides for; what it cannot
 * help is a command that is delayed in the network until the lease which it belongs to is over.
 */
export class TimestampCommands implements TimestampProtocol {
  private reaching: Promise<unknown> | undefined;

  constructor(
    private readonly connection: RedisConnection,
    private readonly commands: PlainCommands,
    private readonly time: ExpiryClock,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
  ) {}

  get ready(): boolean {
    return this.connection.ready;
  }

  /**
   * While the connection is down, a command that changes nothing waits in the client's queue: one for all who want to know,
   * because nothing ends that queue before the connection is back.
   */
  prepare(key: string, until: number): Promise<void> {
    this.reaching ??= this.commands.get(key).finally(() => (this.reaching = undefined));
    const reached = this.reaching.then(
      () => undefined,
      (error: unknown) => {
        // Of another type, for example: that concerns this key alone.
        if (!this.ready) throw error;
      },
    );
    return withTimeout(this.clock, until - this.clock.now(), reached, () => undefined);
  }

  async take(ask: Take): Promise<Taken> {
    const { key, leaseMs } = ask;
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      if (!this.isOpen(ask)) return { status: 'expired' };
      const stamp = this.time.expiryAfter(leaseMs);
      if (Number(await this.commands.setnx(key, String(stamp.value))) === 1)
        return this.granted(key, 'acquired', stamp);
      const held = await this.commands.get(key);
      if (held === null) {
        tellOutcome(key, 'deletedMeanwhile');
        continue;
      }
      if (!this.time.isExpired(held)) {
        tellOutcome(key, 'stillHeld');
        return { status: 'held', held };
      }
      if (!this.isOpen(ask)) return { status: 'expired' };
      const taken = await this.takeOver(key, held, leaseMs);
      if (taken !== undefined) return taken;
    }
    return { status: 'held', held: undefined };
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly ExtendReply[]> {
    // A renewal that waits in the client's queue is old when it is sent.
    if (!this.ready) return renewals.map(() => 'unknown');
    return Promise.all(renewals.map((renewal) => this.renewOne(renewal).catch((): ExtendReply => 'unknown')));
  }

  async end(lease: HeldLease): Promise<boolean> {
    if (!(await this.isOurs(lease))) return false;
    return Number(await this.commands.del(lease.key)) === 1;
  }

  async keep(lease: HeldLease, stamp: Expiry): Promise<boolean> {
    return (await this.isOurs(lease)) && this.replace(lease, stamp);
  }

  /** Undefined: somebody else was faster. */
  private async takeOver(key: string, expired: string, leaseMs: number): Promise<Taken | undefined> {
    const { commands, time } = this;
    const stamp = time.expiryAfter(leaseMs);
    const old = await commands.getset(key, String(stamp.value));
    if (old === expired) return this.granted(key, 'takenOver', stamp);
    // Deleted at the last moment: nobody held it when our value was written, and nobody else was told so. To begin anew
    // would be to wait for ourselves.
    if (old === null) return this.granted(key, 'acquired', stamp);
    tellOutcome(key, 'lostRace');
    // The winner's value is overwritten. A later one does it no harm; an earlier one, of a shorter lease or one that was
    // computed long ago, would open its lock to others too soon.
    const winners = time.read(old);
    if (winners === undefined || winners > stamp.value) await commands.set(key, old, 'XX');
    return undefined;
  }

  private async granted(key: string, outcome: 'acquired' | 'takenOver', stamp: Expiry): Promise<Taken> {
    tellOutcome(key, outcome);
    // Only the sweeping up of what a crash leaves behind; the value counts, with or without it. Never late: it would
    // shorten the life of another one's key.
    if (!this.time.isOver(stamp)) await this.expire(key, stamp).catch(() => undefined);
    return { status: 'granted', stamp };
  }

  /**
   * Written blindly, a new expiry can hit another's key if the lease runs out on the way. So it is not sent close to the
   * end; and an answer that comes after the end says nothing, because somebody may have had the key in between.
   */
  private async renewOne({ lease, stamp }: Renewal): Promise<ExtendReply> {
    const { overAt, lengthMs } = lease;
    if (!(await this.isOurs(lease))) return 'lost';
    const marginMs = Math.min(lengthMs * MARGIN, this.requestTimeoutMs);
    if (this.clock.now() + marginMs >= overAt) return 'unknown';
    if (!(await this.replace(lease, stamp))) return 'lost';
    return this.clock.now() < overAt ? 'renewed' : 'lost';
  }

  private async isOurs(lease: HeldLease): Promise<boolean> {
    const held = await this.commands.get(lease.key);
    return held !== null && lease.covers(this.time.read(held)) && !this.time.isOver(lease);
  }

  private async replace(lease: HeldLease, stamp: Expiry): Promise<boolean> {
    const unit = this.time.unit === 's' ? 'EX' : 'PX';
    lease.writing(stamp);
    return (await this.commands.set(lease.key, String(stamp.value), unit, String(stamp.ttl), 'XX')) !== null;
  }

  private expire(key: string, { ttl }: Expiry): Promise<unknown> {
    return this.time.unit === 's' ? this.commands.expire(key, String(ttl)) : this.commands.pexpire(key, String(ttl));
  }

  private isOpen({ expiresAt, isWanted }: Take): boolean {
    return isWanted() && this.clock.now() < expiresAt;
  }
}
