import { LockConfigError } from '../../common/errors.js';
import { type ClusterClient, isCluster, type ServerClient } from '../../redis/client-port.js';
import { scanKeys } from '../../redis/key-scan.js';
import { RedisConnection } from '../../redis/redis-connection.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import { serverNameOf } from '../../redis/server-address.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ListedLock,
  ListRequest,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
  StorePing,
} from '../../contract/store.js';
import { listLocks } from '../list-locks.js';
import { PendingRequests } from '../pending-requests.js';
import { answer, type ReplyListener } from '../../contract/reply-listener.js';
import type { StoreContext } from '../store-context.js';
import { ExpiryClock } from './expiry-clock.js';
import { PlainCommands, SHORTEST_PLAIN_LEASE } from './plain-commands.js';
import type { Protocol } from './protocol.js';
import type { TimestampOptions } from './timestamp.js';
import { WithScripts } from './with-scripts.js';

type ResolvedOptions = { readonly [Name in keyof TimestampOptions]-?: NonNullable<TimestampOptions[Name]> };

/**
 * The store behind `timestamp()`.
 *
 * Nobody may take a lock over before the time in its key is past. The loser of a race overwrites our value with one
 * that may be past sooner, so another client may hold the lock although our own lease is not over. What another client
 * has written therefore counts as ours only as long as there cannot be a later holder. Otherwise the lock is lost.
 */
export class TimestampStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  /**
   * Undefined with plain commands: the next holder may have the same value, and the former holder would take it for its
   * own.
   */
  readonly forceRelease: LockStore['forceRelease'];
  private readonly connection: RedisConnection;
  private readonly requests: PendingRequests;
  private readonly protocol: Protocol;
  /** A key that the Redis user may read, for probes by plain commands: the last one that was requested. */
  private readableKey: string;
  private listener: StoreListener | undefined;
  private stopListening: (() => void) | undefined;

  /** @throws LockConfigError if the client is a Cluster. */
  constructor(
    private readonly context: StoreContext,
    { unit, scripts, retryCount, retryDelayMs }: ResolvedOptions,
  ) {
    const { clock, requestTimeoutMs, prefix } = context;
    const client = oneServer(context.redis());
    const time = new ExpiryClock(clock, unit);
    this.readableKey = `${prefix}ping`;
    const read = scripts ? undefined : () => client.send('get', [this.readableKey]);
    this.connection = new RedisConnection(client, clock, requestTimeoutMs, undefined, read);
    const { connection } = this;
    const onSilent = (error: Error): void => this.listener?.onDown(error);
    this.requests = new PendingRequests(context, { connections: () => [connection] }, onSilent);
    this.protocol = scripts ? new WithScripts(connection, time) : new PlainCommands(connection, time, requestTimeoutMs);
    const { protocol } = this;
    this.forceRelease = protocol.forceRelease && (async ({ key }) => protocol.forceRelease?.(key) ?? false);
    this.capabilities = {
      name: 'timestamp()',
      queue: false,
      // The first request is not a retry.
      retry: { pauseMs: retryDelayMs, limit: retryCount + 1 },
      fencing: false,
      idempotentAcquire: scripts,
      modes: ['exclusive'],
      resolutionMs: time.unitMs,
      shortestLease: scripts ? undefined : SHORTEST_PLAIN_LEASE,
    };
  }

  listen(listener: StoreListener): void {
    this.listener = listener;
    this.stopListening = this.connection.listen({ ...listener, onDisconnected: () => this.requests.cut() });
  }

  serverOf(): undefined {
    return undefined;
  }

  acquire({ key, owner, leaseMs }: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    const { connection, protocol } = this;
    const { clock, requestTimeoutMs } = this.context;
    this.readableKey = key;
    const send = async (isOver: () => boolean): Promise<AcquireReply> => {
      if (!connection.ready) await connection.reached(clock.now() + 2 * requestTimeoutMs);
      // The owner may have been released since.
      if (isOver()) throw connection.whyNotReady();
      return protocol.acquire(key, owner, leaseMs, isOver);
    };
    answer(listener, this.requests.expect(key, send, 'a lock'));
  }

  release({ key, owner, closedForMs }: ReleaseRequest, listener: ReplyListener<boolean>): void {
    const send = (): Promise<boolean> => this.ifReady(() => this.protocol.release(key, owner, closedForMs));
    answer(listener, this.requests.expect(key, send, 'a release'));
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    this.connection.cork();
    const replies = this.requests.extend(requests, this.listener, ({ key, owner, leaseMs }) =>
      this.ifReady(() => this.protocol.extend(key, owner, leaseMs)),
    );
    // The work under these locks may block the event loop.
    this.connection.uncork();
    return replies;
  }

  async inspect(key: string): Promise<LockState | null> {
    try {
      return await this.protocol.inspect(key);
    } catch (error) {
      throw unavailableBecause(error, 'an inspection');
    }
  }

  list(request: ListRequest): AsyncIterable<ListedLock> {
    const { connection, protocol } = this;
    const inspect = (key: string): Promise<LockState | null> => {
      connection.cork();
      return protocol.inspect(key);
    };
    return listLocks(request, { pages: scanKeys(connection, request), inspect }, this.context);
  }

  async ping(): Promise<StorePing> {
    const { connection } = this;
    const server = await connection.ping(serverNameOf(connection.client));
    return { isUp: server.isUp, handoff: 'polling', degraded: undefined, servers: [server] };
  }

  close(): Promise<void> {
    this.listener = undefined;
    this.stopListening?.();
    this.requests.close();
    return Promise.resolve();
  }

  /** In the client's queue, a request could outlive the lease. The engine repeats releases and renewals instead. */
  private ifReady<T>(send: () => Promise<T>): Promise<T> {
    return this.connection.ready ? send() : Promise.reject(this.connection.whyNotReady());
  }
}

/** @throws LockConfigError if the client is a Cluster. */
function oneServer(client: ServerClient | ClusterClient): ServerClient {
  if (!isCluster(client)) return client;
  throw new LockConfigError(
    'redis is a Cluster, which timestamp() does not support; use one Redis, or token() or redisson().',
  );
}
