import { instanceOf } from '../../core/store/instance-id.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  HolderInfo,
  ListedLock,
  ListRequest,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  ServerConnection,
  StoreListener,
  StorePing,
} from '../../core/store/lock-store.js';
import { LockConfigError } from '../../core/errors.js';
import { helperKey } from '../../core/keys/resource-key.js';
import { type ClusterClient, isCluster, type ServerClient } from '../../redis/client-port.js';
import { forcedRelease } from '../../redis/forced-release.js';
import { Pinger } from '../../redis/pinger.js';
import { serverNameOf } from '../../redis/server-address.js';
import { RedisConnection } from '../../redis/redis-connection.js';
import { toRemainingMs } from '../../redis/decode.js';
import { scanKeys, withinTime } from '../../redis/key-scan.js';
import { toError, unavailableBecause } from '../../redis/redis-errors.js';
import { extendReplies } from '../extend-replies.js';
import { listLocks } from '../list-locks.js';
import { FormerStore } from '../former-store.js';
import type { StoreContext, StoreFactory } from '../store-context.js';
import { ExpiryClock } from './expiry-clock.js';
import { HeldLease, HeldLeases } from './held-leases.js';
import { SHORTEST_PLAIN_LEASE, TimestampCommands } from './timestamp-commands.js';
import { type ResolvedTimestampOptions, resolveTimestampOptions, type TimestampOptions } from './timestamp-options.js';
import type { Renewal, TakeReply, TimestampProtocol } from './timestamp-protocol.js';
import { TimestampScripts } from './timestamp-scripts.js';

/**
 * Keeps locks as keys whose value is the time of their expiry: the SETNX/GETSET pattern of the Redis page on
 * {@link https://redis.io/docs/latest/commands/setnx/ | SETNX}. For locks that are shared with services that already
 * use that pattern. For other locks, the store `token()` is safer and faster.
 *
 * Leases are measured by the clients' wall clocks, so these must agree to well within a lease. All clients of a key
 * should use leases of about the same length, because a client that loses the race for an expired lock overwrites the
 * winner's expiry. The store gives no fencing tokens and has no queue: waiting callers retry.
 *
 * With scripts, a second key `{key}|holder` makes repeated requests harmless, and shows whether another client has
 * written the key. A lock whose key another client wrote is lost, and its key is left as it is. The loser of a
 * race is tolerated in the first half of a lease of 1 s or more. With plain commands, leases below 1 s are refused, and
 * a request that is repeated or delayed beyond the lease can end the lock of another client.
 *
 * @throws LockConfigError if an option is unknown or not allowed.
 * @throws LockConfigError at the start of the module if the client is a Cluster.
 * @publicApi
 */
export function timestamp(options: TimestampOptions = {}): StoreFactory {
  const resolved = resolveTimestampOptions(options);
  return (context) => new FormerStore(new TimestampStore(context, resolved), context);
}

/** An acquire without a reply yet. */
interface PendingAcquire {
  /** False once its owner has been released. */
  wanted: boolean;
  /** Resolves when it has succeeded or failed. */
  readonly ended: Promise<unknown>;
}

/**
 * The value of a key does not name its holder, and another client that tried in the same second may have the same
 * value. A lock is therefore ours from the reply until its lease expires on the wall clock or on the monotonic clock.
 * Afterwards nothing is written or deleted.
 *
 * Nobody may take the lock over before the time in the key is past. The loser of a race overwrites our value with one
 * that may be past sooner, so another client may hold the lock although our own lease is not over. What another client
 * has written therefore counts as ours only as long as there cannot be a later holder. Otherwise the lock is lost.
 */
class TimestampStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  /**
   * Undefined with plain commands: the next holder may have the same value, and the former holder would take it for its
   * own.
   */
  readonly forceRelease: LockStore['forceRelease'];

  private readonly connection: RedisConnection;
  private readonly pinger: Pinger;
  /** A key that the Redis user may read, for the ping: the last one that was requested. */
  private readableKey: string;
  private readonly client: ServerClient;
  private readonly time: ExpiryClock;
  private readonly protocol: TimestampProtocol;
  private readonly acquires = new Map<string, PendingAcquire>();
  private readonly leases: HeldLeases;
  private listener: StoreListener | undefined;

  constructor(context: StoreContext, { unit, scripts, retry }: ResolvedTimestampOptions) {
    const { clock, requestTimeoutMs } = context;
    const client = oneServer(context.redis());
    this.client = client;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs, scripts);
    const send = scripts ? undefined : () => client.send('get', [this.readableKey]);
    this.readableKey = `${context.prefix}ping`;
    this.pinger = new Pinger({ clock, timeoutMs: requestTimeoutMs, send });
    this.time = new ExpiryClock(clock, unit);
    this.leases = new HeldLeases(this.time);
    if (scripts) {
      const protocol = new TimestampScripts(this.connection, this.time, clock, requestTimeoutMs);
      this.protocol = protocol;
      this.forceRelease = ({ key }) => this.force(key, protocol);
    } else this.protocol = new TimestampCommands(this.connection, this.time, clock, requestTimeoutMs);
    this.capabilities = {
      name: 'timestamp()',
      queue: false,
      retry,
      fencing: false,
      idempotentAcquire: false,
      modes: ['exclusive'],
      resolutionMs: this.time.unitMs,
      shortestLease: scripts ? undefined : SHORTEST_PLAIN_LEASE,
    };
  }

  connections(): Iterable<ServerConnection> {
    return [this.connection];
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    return this.connection.listen(listener);
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { owner } = request;
    [this.readableKey] = request.keys;
    let end!: () => void;
    const ended = new Promise<void>((resolve) => (end = resolve));
    const pending: PendingAcquire = { wanted: true, ended };
    this.acquires.set(owner, pending);
    return this.take(request, pending)
      .catch((error: unknown) => {
        throw unavailableBecause(error, 'a lock');
      })
      .finally(() => {
        if (this.acquires.get(owner) === pending) this.acquires.delete(owner);
        end();
      });
  }

  async release({ owner, closedForMs }: ReleaseRequest): Promise<boolean> {
    const pending = this.acquires.get(owner);
    if (pending !== undefined) {
      pending.wanted = false;
      // Only its reply shows whether there is anything to release.
      await pending.ended;
    }
    const lease = this.leases.of(owner);
    if (lease === undefined) return false;
    // In the client's queue the release could outlive the lease. The engine repeats a failed release.
    if (!this.protocol.ready) throw unavailableBecause(new Error('there is no connection'), 'a release');
    try {
      return await (closedForMs > 0 ? this.keepLocked(lease, closedForMs) : this.end(lease));
    } catch (error) {
      throw unavailableBecause(error, 'a release');
    }
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const renewals = requests.map((request) => this.renewalOf(request));
    const known = renewals.filter((renewal) => renewal !== undefined);
    const replies = await this.protocol.renew(known);
    const replyOf = new Map(known.map((renewal, i) => [renewal, replies[i]]));
    const all = renewals.map((renewal) => (renewal === undefined ? 'lost' : (replyOf.get(renewal) ?? 'unknown')));
    return extendReplies(requests, all, this.listener).map((reply, i) => {
      const renewal = renewals[i];
      if (reply === 'renewed') renewal?.lease.onWritten(renewal.expiry);
      // A later release must not delete the key of another client.
      if (reply === 'lost') this.leases.forget(requests[i].owner);
      return reply;
    });
  }

  async inspect(key: string): Promise<HolderInfo | null> {
    try {
      return await this.holderOf(key);
    } catch (error) {
      throw unavailableBecause(error, 'an inspection');
    }
  }

  list(request: ListRequest): AsyncIterable<ListedLock> {
    // The commands of one batch leave in one packet.
    const inspectAll = (keys: readonly string[]): Promise<readonly (HolderInfo | null | Error)[]> =>
      withinTime(Promise.all(keys.map((key) => this.holderOf(key).catch(toError))), this.connection);
    return listLocks(request, { pages: scanKeys(this.connection, request), inspectAll });
  }

  async ping(): Promise<StorePing> {
    const { connection } = this;
    const server = await this.pinger.ping(connection, serverNameOf(connection.client));
    return { isUp: server.isUp, handoff: 'polling', degraded: undefined, servers: [server] };
  }

  close(): Promise<void> {
    this.leases.clear();
    return Promise.resolve();
  }

  private async holderOf(key: string): Promise<HolderInfo | null> {
    const held = await this.read(key);
    if (held === null || this.time.isExpired(held)) return null;
    // Of a foreign lock only the value is known.
    const owner = this.leases.ownerOf(key, this.time.read(held));
    const holder = owner === undefined ? held : instanceOf(owner);
    return { holder, remainingMs: await this.remainingMs(key, held), token: undefined };
  }

  private async take(request: AcquireRequest, pending: PendingAcquire): Promise<AcquireReply> {
    const { protocol } = this;
    const { keys, owner, leaseMs, expiresAt, tokens } = request;
    const [key] = keys;
    if (!protocol.ready) await protocol.prepare(key, expiresAt);
    if (!protocol.ready) return { status: 'expired' };
    const reply = await protocol.take({ key, owner, leaseMs, expiresAt, isWanted: () => pending.wanted });
    if (reply.status !== 'granted') return this.refusalOf(reply);
    this.leases.add(new HeldLease(owner, key, reply.expiry, this.time.raceFor(reply.expiry)));
    return { status: 'granted', token: undefined, tokens };
  }

  private refusalOf(reply: Exclude<TakeReply, { readonly status: 'granted' }>): AcquireReply {
    if (reply.status === 'expired') return reply;
    const { held, owner } = reply;
    const remainingMs = held === undefined ? undefined : this.time.expiresInMs(held);
    const holder = owner === undefined ? undefined : { instanceId: instanceOf(owner) };
    return { status: 'held', queued: false, remainingMs, holder };
  }

  private force(key: string, protocol: TimestampScripts): Promise<boolean> {
    const { connection } = this;
    let former: string | null | undefined;
    return forcedRelease(connection.clock, connection.requestTimeoutMs, async (checkTime) => {
      for (;;) {
        const [held, owner] = await Promise.all([this.read(key), this.read(helperKey(key, 'holder'))]);
        if (held === null || this.time.isExpired(held)) return false;
        // Tries again only after a renewal by the same owner. Any other value may be the next lock.
        if (former !== undefined && (former === null || former !== owner)) return false;
        former = owner;
        // In the client's queue, requests wait through an outage.
        checkTime();
        const { losses } = connection;
        if (await protocol.force(key, held, owner ?? '')) return true;
        // The client has sent the script again, which may have found that its first run deleted the key.
        if (connection.losses !== losses) throw new Error('the connection ended before the reply');
      }
    });
  }

  private read(key: string): Promise<string | null> {
    return this.client.send('get', [key]) as Promise<string | null>;
  }

  private async end(lease: HeldLease): Promise<boolean> {
    const ended = await this.protocol.end(lease);
    this.leases.forget(lease.owner);
    return ended;
  }

  private async keepLocked(lease: HeldLease, closedForMs: number): Promise<boolean> {
    const expiry = this.time.nextExpiry(lease, closedForMs);
    const kept = await this.protocol.keep(lease, expiry);
    if (kept) lease.onWritten(expiry);
    else this.leases.forget(lease.owner);
    return kept;
  }

  private renewalOf({ owner, leaseMs }: ExtendRequest): Renewal | undefined {
    const lease = this.leases.of(owner);
    return lease && { lease, expiry: this.time.laterExpiry(lease, leaseMs) };
  }

  private async remainingMs(key: string, held: string): Promise<number> {
    const value = this.time.read(held);
    if (value !== undefined) return this.time.restMs({ value });
    const ttl = Number(await this.client.send('pttl', [key]));
    return Math.max(0, toRemainingMs(ttl));
  }
}

/** @throws LockConfigError if the client is a Cluster. */
function oneServer(client: ServerClient | ClusterClient): ServerClient {
  if (!isCluster(client)) return client;
  throw new LockConfigError(
    'redis is a Cluster, which timestamp() does not support; use one Redis, or token() or redisson().',
  );
}
