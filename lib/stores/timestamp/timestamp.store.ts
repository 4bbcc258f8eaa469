import {
  instanceOf,
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type HolderInfo,
  type LockStore,
  type ReleaseRequest,
  type StoreCapabilities,
  type StoreListener,
} from '../../core/store/lock-store.js';
import { refuseCluster } from '../../redis/cluster/cluster-client.js';
import { RedisConnection } from '../../redis/redis-connection.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import type { StoreContext, StoreFactory } from '../store-context.js';
import { HeldLease, HeldLeases } from './held-leases.js';
import { type ResolvedTimestampOptions, resolveTimestampOptions, type TimestampOptions } from './timestamp-options.js';
import { type PlainCommands, TimestampCommands } from './timestamp-commands.js';
import { TimestampScripts } from './timestamp-scripts.js';
import { ExpiryClock } from './expiry-clock.js';
import type { Renewal, Taken, TimestampProtocol } from './timestamp-protocol.js';

/**
 * Locks whose value is the time of their expiry, by the algorithm of the classic SETNX/GETSET articles: to share locks with
 * services that use it already. For locks of your own, {@link token} is safer and faster.
 *
 * What it cannot do: leases are measured by the clients' wall clocks, so that these have to agree to within much less than
 * a lease; there are no fencing tokens; and nobody is told of a lock that became free, so that waiting is asking again and
 * again. All clients of a key should ask for leases of about the same length: who loses a race for an expired lock
 * overwrites the winner's expiry with its own. With scripts a second key beside the lock's, `{key}|holder`, makes requests
 * that are sent twice harmless; with plain commands a request that is sent twice can end another's lock.
 *
 * @throws LockConfigError for options that cannot work.
 * @publicApi
 */
export function timestamp(options: TimestampOptions = {}): StoreFactory {
  const resolved = resolveTimestampOptions(options);
  return (context) => new TimestampStore(context, resolved);
}

/** An ask that is not answered yet. */
interface Asking {
  wanted: boolean;
  /** Fulfilled at its end, whatever that was. */
  readonly ended: Promise<unknown>;
}

/**
 * The value does not tell whose a lock is: it may be equal to another client's that asked in the same second. So a lock
 * counts as ours from the answer to the ask until its lease is over, by the protocol's clock and by the one that nobody
 * sets; afterwards nothing is written to the key or deleted.
 *
 * Before that, the value in the key is ours, or one that the loser of a race put there: it saw the expired value before we
 * replaced it, and so wrote its own soon after ours. Nobody else writes before our expiry has come. A value that lies
 * further off is somebody else's, after a flush or another client's mistaken delete: then the lock is lost.
 *
 * A renewal is safe for the same reason: it is only written before our expiry, while nobody may take over.
 */
class TimestampStore implements LockStore {
  readonly capabilities: StoreCapabilities;

  private readonly connection: RedisConnection;
  private readonly commands: PlainCommands;
  private readonly time: ExpiryClock;
  private readonly wire: TimestampProtocol;
  private readonly asking = new Map<string, Asking>();
  private readonly leases: HeldLeases;

  constructor(context: StoreContext, { unit, scripts, retry }: ResolvedTimestampOptions) {
    const { clock, requestTimeoutMs } = context;
    const client = context.redis();
    refuseCluster(client, 'timestamp()');
    this.commands = client as unknown as PlainCommands;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs, scripts);
    this.time = new ExpiryClock(clock, unit);
    this.leases = new HeldLeases((lease) => this.time.isOver(lease));
    this.wire = scripts
      ? new TimestampScripts(this.connection, this.time, clock, requestTimeoutMs)
      : new TimestampCommands(this.connection, this.commands, this.time, clock, requestTimeoutMs);
    this.capabilities = {
      name: 'timestamp()',
      queue: false,
      retry,
      fencing: false,
      idempotentAcquire: false,
      modes: ['exclusive'],
      resolutionMs: this.time.unitMs,
    };
  }

  listen(listener: StoreListener): () => void {
    return this.connection.listen(listener);
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { owner } = request;
    let end!: () => void;
    const ended = new Promise<void>((resolve) => (end = resolve));
    const asking: Asking = { wanted: true, ended };
    this.asking.set(owner, asking);
    return this.askAs(request, asking)
      .catch((error: unknown) => {
        throw unavailableBecause(error, 'a lock');
      })
      .finally(() => {
        if (this.asking.get(owner) === asking) this.asking.delete(owner);
        end();
      });
  }

  async release({ owner, keepMs }: ReleaseRequest): Promise<boolean> {
    const asking = this.asking.get(owner);
    if (asking !== undefined) {
      // Whether there is anything to release only its answer tells.
      asking.wanted = false;
      await asking.ended;
    }
    const lease = this.leases.of(owner);
    if (lease === undefined) return false;
    // Waiting in the client's queue through an outage, it might come after the end of the lease: whoever gives back repeats it.
    if (!this.wire.ready) throw unavailableBecause(new Error('there is no connection'), 'a release');
    try {
      return await (keepMs > 0 ? this.keepClosed(lease, keepMs) : this.end(lease));
    } catch (error) {
      throw unavailableBecause(error, 'a release');
    }
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const renewals = requests.map((request) => this.renewalOf(request));
    const known = renewals.filter((renewal) => renewal !== undefined);
    const replies = await this.wire.renew(known);
    const replyOf = new Map(known.map((renewal, i) => [renewal, replies[i] ?? 'unknown']));
    return renewals.map((renewal, i) => {
      const reply = renewal === undefined ? 'lost' : (replyOf.get(renewal) ?? 'unknown');
      if (reply === 'renewed') renewal?.lease.wrote(renewal.stamp);
      // What is somebody else's by now must not be deleted later.
      if (reply === 'lost') this.leases.forget(requests[i].owner);
      return reply;
    });
  }

  async inspect(key: string): Promise<HolderInfo | null> {
    try {
      const held = await this.commands.get(key);
      if (held === null || this.time.isExpired(held)) return null;
      // The value does not tell whose it is, but whether it is ours is known.
      const owner = this.leases.ownerOf(key, this.time.read(held));
      const holder = owner === undefined ? held : instanceOf(owner);
      return { holder, remainingMs: await this.remainingMs(key, held), token: undefined };
    } catch (error) {
      throw unavailableBecause(error, 'a look at a lock');
    }
  }

  close(): Promise<void> {
    this.leases.clear();
    return Promise.resolve();
  }

  private async askAs(
    { keys: [key], owner, leaseMs, expiresAt, tokens }: AcquireRequest,
    asking: Asking,
  ): Promise<AcquireReply> {
    if (!this.wire.ready) await this.wire.prepare(key, expiresAt);
    if (!this.wire.ready) return { status: 'expired' };
    const taken = await this.wire.take({ key, owner, leaseMs, expiresAt, isWanted: () => asking.wanted });
    if (taken.status !== 'granted') return this.refusalOf(taken);
    this.leases.add(new HeldLease(owner, key, taken.stamp, this.time.beside));
    return { status: 'granted', token: undefined, tokens };
  }

  private refusalOf(taken: Exclude<Taken, { readonly status: 'granted' }>): AcquireReply {
    if (taken.status === 'expired') return taken;
    const { held } = taken;
    return { status: 'held', queued: false, remainingMs: held === undefined ? undefined : this.time.expiresInMs(held) };
  }

  private async end(lease: HeldLease): Promise<boolean> {
    const ended = await this.wire.end(lease);
    this.leases.forget(lease.owner);
    return ended;
  }

  private async keepClosed(lease: HeldLease, keepMs: number): Promise<boolean> {
    const stamp = this.time.nextExpiry(lease, keepMs);
    const kept = await this.wire.keep(lease, stamp);
    if (kept) lease.wrote(stamp);
    else this.leases.forget(lease.owner);
    return kept;
  }

  private renewalOf({ owner, leaseMs }: ExtendRequest): Renewal | undefined {
    const lease = this.leases.of(owner);
    return lease && { lease, stamp: this.time.laterExpiry(lease, leaseMs) };
  }

  private async remainingMs(key: string, held: string): Promise<number> {
    const value = this.time.read(held);
    if (value !== undefined) return this.time.restMs({ value });
    const ttl = Number(await this.commands.pttl(key));
    return ttl === -1 ? Infinity : Math.max(0, ttl);
  }
}
