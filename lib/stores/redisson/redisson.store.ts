import { LockConfigError } from '../../common/errors.js';
import { isCluster } from '../../redis/client-port.js';
import { forcedRelease } from '../../redis/forced-release.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import { wholeMs } from '../../redis/redis-script.js';
import { topologyOf } from '../../redis/single-node.js';
import type { RedisNode, Topology } from '../../redis/topology.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  KeyFilter,
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
import { warnOnce } from '../warn-once.js';
import { LockChannels } from './lock-channels.js';
import { ACQUIRE, channelOf, EXTEND, INSPECT, NOT_HELD, PUBLISH_REFUSED, RELEASE, tokenKeyOf } from './wire.js';

const DEGRADED = 'Waiting for locks costs more requests, because release messages cannot be received';

/** The store behind `redisson()`. The owner of a lock is the field of its hash, as a thread is in Java. */
export class RedissonStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  private readonly topology: Topology;
  /** The last arguments of the script that publishes: in a cluster, that channels are sharded. */
  private readonly publishArgs: readonly string[];
  private readonly requests: PendingRequests;
  private channels: LockChannels | undefined;
  private listener: StoreListener | undefined;
  private stopWatching: (() => void) | undefined;
  /** What is limited because messages cannot be received. Undefined if they can, or if nobody has waited yet. */
  private refusal: string | undefined;
  /** Reports once that waiting costs more requests. */
  private readonly warn = warnOnce((message) => this.listener?.onDegraded(message));

  /** @throws LockConfigError if tokens cannot be kept, because the client has a `keyPrefix`. */
  constructor(
    private readonly fencing: boolean,
    private readonly context: StoreContext,
  ) {
    this.topology = topologyOf(context);
    this.publishArgs = isCluster(context.redis()) ? ['sharded'] : [];
    if (fencing && this.topology.prefix !== '') {
      const advice = 'a client without it, and a `key` function that gives the whole name';
      throw new LockConfigError(`redisson: fencing does not work with the keyPrefix of a client; use ${advice}.`);
    }
    const onSilent = (error: Error, server: string | undefined): void => {
      // A stopped node keeps its connection open, so only its silence shows that another may have its slots.
      this.topology.refresh?.();
      this.listener?.onDown(error, server);
    };
    this.requests = new PendingRequests(context, this.topology, onSilent);
    this.capabilities = {
      name: 'redisson()',
      queue: false,
      fencing,
      idempotentAcquire: true,
      modes: ['exclusive'],
      resolutionMs: 1,
    };
  }

  listen(listener: StoreListener): void {
    this.listener = listener;
    const { context, topology } = this;
    this.channels = new LockChannels(context.clock, topology, (key) => this.channelOf(key), {
      onReleased: (key) => listener.onReleased(key),
      onSubscribed: () => (this.refusal = undefined),
      onRefused: (why) => this.onRefused(why),
    });
    const onDisconnected = (concerns?: KeyFilter): void => this.requests.cut(concerns);
    this.stopWatching = topology.watch({ ...listener, onDisconnected }, this.channels.subscriptions);
  }

  serverOf(key: string): string | undefined {
    return this.topology.serverOf?.(key);
  }

  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    answer(listener, this.acquireOne(request));
  }

  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    answer(listener, this.releaseOne(request));
  }

  private async acquireOne({ key, owner, leaseMs }: AcquireRequest): Promise<AcquireReply> {
    const { clock, requestTimeoutMs } = this.context;
    const args = [owner, wholeMs(leaseMs)];
    const send = (isOver: () => boolean): Promise<AcquireReply> =>
      this.topology.sendToNode(key, async ({ connection, failsFast }) => {
        if (!failsFast) await connection.reached(clock.now() + 2 * requestTimeoutMs);
        // The owner may have been released since.
        if (isOver()) throw connection.whyNotReady();
        return ACQUIRE.run(connection, this.keysOf(key), args);
      });
    const reply = await this.requests.expect(key, send, 'a lock');
    return reply.status === 'held' ? { ...reply, queued: this.channels?.hears(key) === true } : reply;
  }

  private async releaseOne({ key, owner, closedForMs }: ReleaseRequest): Promise<boolean> {
    this.channels?.expectOwnMessage(key);
    let receivers = 0;
    try {
      const send = () => this.topology.sendToNode(key, (node) => this.end(node, key, owner, closedForMs));
      receivers = await this.requests.expect(key, send, 'a release');
    } finally {
      if (receivers <= 0) this.channels?.missOwnMessage(key);
    }
    return receivers !== NOT_HELD;
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const { topology } = this;
    const replies = this.requests.extend(requests, this.listener, ({ key, owner, leaseMs }) =>
      topology.sendToNode(key, ({ connection }) => {
        connection.cork();
        return EXTEND.run(connection, [key], [owner, wholeMs(leaseMs)]);
      }),
    );
    // The work under these locks may block the event loop.
    for (const connection of topology.connections()) connection.uncork();
    return replies;
  }

  /** Ends only the hold that it has read, so that a script that is sent again does not end the next one. */
  forceRelease({ key, ifToken }: ForceReleaseRequest): Promise<boolean> {
    const { clock, requestTimeoutMs } = this.context;
    return forcedRelease(clock, requestTimeoutMs, (checkTime) =>
      this.topology.sendToNode(key, async (node) => {
        const { connection } = node;
        const held = await INSPECT.run(connection, this.keysOf(key), []);
        checkTime();
        if (held === null || (ifToken !== undefined && held.token !== ifToken)) return false;
        const { losses } = connection;
        const receivers = await this.end(node, key, held.field, 0);
        // The client resent the script, and its first run may have released the lock.
        if (receivers === NOT_HELD && connection.losses !== losses)
          throw new Error('the connection ended before the reply');
        return receivers !== NOT_HELD;
      }),
    );
  }

  async inspect(key: string): Promise<LockState | null> {
    try {
      return await this.read(key);
    } catch (error) {
      throw unavailableBecause(error, 'an inspection');
    }
  }

  list(request: ListRequest): AsyncIterable<ListedLock> {
    const inspect = (key: string): Promise<LockState | null> => this.read(key);
    return listLocks(request, { pages: this.topology.scan(request), inspect }, this.context);
  }

  ping(): Promise<StorePing> {
    return this.topology.ping(this.refusal);
  }

  close(): Promise<void> {
    this.listener = undefined;
    this.stopWatching?.();
    this.channels?.close();
    this.requests.close();
    return Promise.resolve();
  }

  private read(key: string): Promise<LockState | null> {
    return this.topology.sendToNode(key, ({ connection }) => {
      connection.cork();
      return INSPECT.run(connection, this.keysOf(key), []);
    });
  }

  /** Releases a lock. Returns what the script does. */
  private async end(
    { connection, failsFast }: RedisNode,
    key: string,
    field: string,
    closedForMs: number,
  ): Promise<number> {
    // In the client's queue, releases would pile up during an outage. The engine repeats them instead.
    if (!failsFast) throw connection.whyNotReady();
    const args = [field, wholeMs(closedForMs), this.channelOf(key), ...this.publishArgs];
    const receivers = await RELEASE.run(connection, [key], args);
    if (receivers === PUBLISH_REFUSED) this.onRefused('Redis refused to publish a release');
    return receivers;
  }

  private onRefused(why: string): void {
    this.refusal = `${DEGRADED}: ${why}`;
    this.warn(this.refusal);
  }

  private keysOf(key: string): readonly string[] {
    return this.fencing ? [key, tokenKeyOf(key)] : [key];
  }

  /** Returns the channel of a key. A client applies its prefix to keys, but not to channels. */
  private channelOf(key: string): string {
    return channelOf(this.topology.prefix + key);
  }
}
