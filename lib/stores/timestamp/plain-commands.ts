import type { ServerClient } from '../../redis/client-port.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import type { AcquireReply, ExtendReply, LockState, StoreCapabilities } from '../../contract/store.js';
import type { Expiry, ExpiryClock } from './expiry-clock.js';
import { HeldLease } from './held-lease.js';
import { GRANTED, heldReply, type Protocol, stateOf } from './protocol.js';

/** After this number of lost races the lock counts as held. */
const MAX_ROUNDS = 10;

/** Nothing is written or deleted in the last part of a lease: this fraction, or `requestTimeoutMs` if that is less. */
const MARGIN = 1 / 4;

/** A quarter of this lease is longer than a request takes on a busy machine. */
export const SHORTEST_PLAIN_LEASE: StoreCapabilities['shortestLease'] = {
  ms: 1_000,
  reason: 'timestamp({ scripts: false }) deletes a lock with two requests, and a shorter one could expire between them',
};

/**
 * Runs each step as several plain commands: the algorithm of the articles. It allows for commands of other clients
 * between them. It does not allow for a command that is delayed in the network until its own lease has expired.
 *
 * Another client that tried in the same second may have written the same value. A lock is therefore ours from the reply
 * until its lease expires on the wall clock or on the monotonic clock. Afterwards nothing is written or deleted.
 */
export class PlainCommands implements Protocol {
  private readonly client: ServerClient;
  /** The locks that this instance holds, those written last at the end. */
  private readonly leases = new Map<string, HeldLease>();

  constructor(
    connection: RedisConnection,
    private readonly time: ExpiryClock,
    private readonly requestTimeoutMs: number,
  ) {
    this.client = connection.client;
  }

  async acquire(key: string, owner: string, leaseMs: number, isOver: () => boolean): Promise<AcquireReply> {
    let held: string | null = null;
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const expiry = this.time.expiryAfter(leaseMs);
      if (Number(await this.send('setnx', key, String(expiry.value))) === 1)
        return this.grant(key, owner, expiry, isOver);
      held = await this.get(key);
      if (isOver()) throw new Error('the request has ended');
      // The key was deleted meanwhile.
      if (held === null) continue;
      if (!this.time.isExpired(held)) return heldReply(this.time, held);
      const taken = await this.takeOver(key, held, leaseMs);
      if (taken !== undefined) return this.grant(key, owner, taken, isOver);
    }
    return heldReply(this.time, undefined);
  }

  async extend(_key: string, owner: string, leaseMs: number): Promise<ExtendReply> {
    const lease = this.leaseOf(owner);
    if (lease === undefined) return 'lost';
    const { overAt } = lease.expiry;
    const expiry = this.time.nextExpiry(lease.expiry, leaseMs, lease.expiry.value);
    const isOurs = await this.isOurs(lease);
    if (isOurs && this.isEnding(lease)) return 'unknown';
    // After the end of the lease the reply proves nothing: another client may have had the key in between.
    if (isOurs && (await this.replace(lease, expiry)) && this.time.clock.now() < overAt) {
      lease.onWritten(expiry);
      this.keep(lease);
      return 'renewed';
    }
    // A later release must not delete the key of another client.
    this.leases.delete(owner);
    return 'lost';
  }

  async release(_key: string, owner: string, closedForMs: number): Promise<boolean> {
    const lease = this.leaseOf(owner);
    if (lease === undefined) return false;
    const isOurs = (await this.isOurs(lease)) && !this.isEnding(lease);
    const isEnded = isOurs && (await this.end(lease, closedForMs));
    this.leases.delete(owner);
    return isEnded;
  }

  async inspect(key: string): Promise<LockState | null> {
    const held = await this.get(key);
    if (held === null) return null;
    const value = this.time.read(held);
    const isOurs = (lease: HeldLease): boolean => lease.key === key && (lease.wrote(value) || lease.isLosers(value));
    const own = [...this.leases.values()].find((lease) => isOurs(lease) && !lease.isOver);
    return stateOf(this.time, held, value === undefined ? await this.send('pttl', key) : 0, own?.owner);
  }

  /** Replaces an expired value by GETSET. Returns undefined if another client was faster. */
  private async takeOver(key: string, expired: string, leaseMs: number): Promise<Expiry | undefined> {
    const { time } = this;
    const expiry = time.expiryAfter(leaseMs);
    const old = (await this.send('getset', key, String(expiry.value))) as string | null;
    // Without a value, the key was deleted since the read, and nobody else was granted the lock. A new round would wait
    // for our own value.
    if (old === expired || old === null) return expiry;
    // We have overwritten the winner's value. A value that expires later does no harm. One that expires earlier would
    // let others take over the winner's lock too soon.
    const winners = time.read(old);
    if (winners === undefined || winners > expiry.value) await this.send('set', key, old, 'XX');
    return undefined;
  }

  private async grant(key: string, owner: string, expiry: Expiry, isOver: () => boolean): Promise<AcquireReply> {
    const lease = new HeldLease(owner, key, this.time, expiry);
    const isSeconds = this.time.unit === 's';
    this.keep(lease);
    // The engine may have released the owner already.
    if (isOver() && !this.isEnding(lease)) await this.end(lease, 0);
    // The TTL only removes the key after a crash. Sent late, it could shorten the life of another client's key.
    else if (!lease.isOver)
      await this.send(isSeconds ? 'expire' : 'pexpire', key, String(expiry.ttl)).catch(() => undefined);
    return GRANTED;
  }

  private async isOurs(lease: HeldLease): Promise<boolean> {
    const held = await this.get(lease.key);
    if (held === null || lease.isOver) return false;
    const value = this.time.read(held);
    if (lease.wrote(value)) return true;
    // The loser of a race leaves no TTL. A later holder sets one.
    return lease.isLosers(value) && Number(await this.send('pttl', lease.key)) === -1 && lease.isLosers(value);
  }

  /**
   * Returns whether a write may arrive after the end of the lease. DEL and SET check nothing, and could then hit
   * another client's key.
   */
  private isEnding({ expiry: { overAt, lengthMs } }: HeldLease): boolean {
    return this.time.clock.now() + Math.min(lengthMs * MARGIN, this.requestTimeoutMs) >= overAt;
  }

  /** Deletes the key of a lock, or keeps it closed. */
  private async end(lease: HeldLease, closedForMs: number): Promise<boolean> {
    if (closedForMs > 0) return this.replace(lease, this.time.nextExpiry(lease.expiry, closedForMs));
    return Number(await this.send('del', lease.key)) === 1;
  }

  private async replace(lease: HeldLease, expiry: Expiry): Promise<boolean> {
    lease.onWrite(expiry);
    const unit = this.time.unit === 's' ? 'EX' : 'PX';
    return (await this.send('set', lease.key, String(expiry.value), unit, String(expiry.ttl), 'XX')) !== null;
  }

  private get(key: string): Promise<string | null> {
    return this.send('get', key) as Promise<string | null>;
  }

  private send(command: string, key: string, ...args: readonly string[]): Promise<unknown> {
    return this.client.send(command, [key], args);
  }

  private leaseOf(owner: string): HeldLease | undefined {
    const lease = this.leases.get(owner);
    return lease?.isOver === false ? lease : undefined;
  }

  /** Remembers a lease, and forgets those at the front that are over. A release that failed leaves one. */
  private keep(lease: HeldLease): void {
    this.leases.delete(lease.owner);
    this.leases.set(lease.owner, lease);
    for (const [owner, oldest] of this.leases) {
      if (!oldest.isOver) return;
      this.leases.delete(owner);
    }
  }
}
