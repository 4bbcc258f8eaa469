import { LockConfigError } from '../../core/errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
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
import { type DeadlineReply, type DeadlineScript, PAST_DEADLINE } from '../../redis/deadline-requests.js';
import { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { isCluster } from '../../redis/client-port.js';
import { toRemainingMs } from '../../redis/decode.js';
import { forcedRelease } from '../../redis/forced-release.js';
import { type ScanTimes, withinTime } from '../../redis/key-scan.js';
import { acquireFailed, releaseFailed, unavailableBecause } from '../../redis/redis-errors.js';
import { promiseOf, wholeMs } from '../../redis/redis-script.js';
import { SingleNode } from '../../redis/single-node.js';
import type { RedisNode, Topology } from '../../redis/topology.js';
import { FormerStore } from '../former-store.js';
import type { StoreContext, StoreFactory } from '../store-context.js';
import { extendReplies } from '../extend-replies.js';
import { listLocks } from '../list-locks.js';
import { toStorePing } from '../ping-reply.js';
import { warnOnce } from '../warn-once.js';
import { fencingOf, type RedissonStoreOptions } from './redisson-options.js';
import { RedissonOwners } from './redisson-owners.js';
import {
  acquireScript,
  channelOf,
  extendScript,
  forceReleaseScript,
  GRANTED,
  inspectScript,
  NOT_OURS,
  PUBLISH_REFUSED,
  releaseScript,
  tokenKeyOf,
} from './redisson-scripts.js';
import { LockPubSub } from './lock-pubsub.js';

/**
 * Keeps locks in the format of Redisson 4 for Java, so that both can contend for them: `RedissonLock` behind `RLock`,
 * and `RFencedLock` with `fencing: true`. Works with a single Redis 6.2 or later, and with a cluster. A lock's name in
 * Redisson is its key here, as built by the module's `key` option.
 *
 * The guarantee is Redisson's: exclusion while the server keeps its data. Waiting callers are notified by Redisson's
 * pub/sub messages, in no particular order. A caller whose message is lost retries after at most 3 s, or when the
 * holder's lease expires.
 *
 * @throws LockConfigError if an option is unknown or not allowed.
 * @throws LockConfigError at the start of the module if `fencing` is on and the client has a `keyPrefix`, because such
 * a client cannot reach the key of Redisson's token.
 * @publicApi
 */
export function redisson(options: RedissonStoreOptions = {}): StoreFactory {
  const fencing = fencingOf(options);
  return (context) => new FormerStore(new RedissonStore(fencing, context), context);
}

const DEGRADED = 'Waiting for locks costs more requests, because release messages cannot be received';

class RedissonStore implements LockStore {
  readonly capabilities: StoreCapabilities;

  readonly serverOf: LockStore['serverOf'];
  private readonly topology: Topology;
  /** The last arguments of the scripts that publish: in a cluster, that channels are sharded. */
  private readonly publishArgs: readonly string[];
  private readonly times: ScanTimes;
  private readonly owners = new RedissonOwners();
  private pubsub: LockPubSub | undefined;
  private listener: StoreListener | undefined;
  /** Reports once that waiting costs more requests. */
  private readonly warn = warnOnce((message) => this.listener?.onDegraded(message));
  /** Why release messages cannot be received. Undefined if they can, or if nobody has waited yet. */
  private pollingBecause: string | undefined;

  constructor(
    private readonly fencing: boolean,
    context: StoreContext,
  ) {
    const { clock, requestTimeoutMs } = context;
    this.times = { clock, requestTimeoutMs };
    const client = context.redis();
    this.topology = isCluster(client)
      ? new ClusterTopology(client, clock, requestTimeoutMs)
      : new SingleNode(client, clock, requestTimeoutMs);
    this.publishArgs = isCluster(client) ? ['sharded'] : [];
    this.serverOf = this.topology.serverOf?.bind(this.topology);
    if (fencing && this.topology.prefix !== '') {
      const advice = 'a client without it, and a `key` function that gives the whole name';
      throw new LockConfigError(`redisson: fencing does not work with the keyPrefix of a client; use ${advice}.`);
    }
    this.capabilities = {
      name: 'redisson()',
      queue: false,
      fencing,
      idempotentAcquire: true,
      modes: ['exclusive'],
      resolutionMs: 1,
    };
  }

  connections(): Iterable<ServerConnection> {
    return this.topology.connections();
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    const events = {
      onReleased: (key: string) => listener.onReleased(key),
      onSubscribed: () => (this.pollingBecause = undefined),
      onRefused: (why: string) => this.onRefused(why),
    };
    const { clock, requestTimeoutMs } = this.times;
    const nameOf = (key: string): string => this.channelOf(key);
    // Named as the channels of locks are, so that an ACL that allows those allows this one. No lock has that name.
    const ownChannel = channelOf(`nestjs-redis-lock:${listener.instanceId}`);
    const probeChannel = this.serverOf === undefined ? ownChannel : undefined;
    this.pubsub = new LockPubSub(clock, requestTimeoutMs, events, this.topology, nameOf, probeChannel);
    return this.topology.watch(listener, this.pubsub.subscriptions);
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { keys, owner, leaseMs } = request;
    const [key] = keys;
    let messageId: number | undefined;
    const send = (server: RedisNode): Promise<DeadlineReply> =>
      promiseOf((listener) => {
        const run: DeadlineScript['run'] = (deadline, timed) => {
          messageId = this.pubsub?.messageIdOf(key);
          const args = [this.owners.fieldOf(owner), wholeMs(leaseMs), deadline];
          acquireScript.runThen(server.connection, this.keysOf(key), args, timed);
        };
        server.deadlineRequests.sendWithDeadline({ request, run }, listener);
      });
    const { status, value } = await this.topology.sendToNode(key, send).catch((error: unknown) => {
      throw acquireFailed(error);
    });
    if (status === PAST_DEADLINE) return { status: 'expired' };
    if (status === GRANTED) {
      this.pubsub?.stopWaiting(key, owner);
      return { status: 'granted', token: this.fencing ? value : undefined, tokens: 1 };
    }
    const queued = this.pubsub?.waitForRelease(key, owner, messageId) ?? false;
    return { status: 'held', queued, remainingMs: toRemainingMs(value) };
  }

  release(request: ReleaseRequest): Promise<boolean> {
    const { keys, owner } = request;
    const [key] = keys;
    this.pubsub?.stopWaiting(key, owner);
    if (this.topology.cancelPending(owner)) return Promise.resolve(false);
    const reply = this.topology.sendToNode(key, (server) => this.releaseAt(server, request));
    // This instance receives its own message if its channel is subscribed.
    const own = this.pubsub?.ignoreOwnMessage(key) ? 1 : 0;
    return reply.then(
      (receivers) => {
        if (own > receivers) this.pubsub?.onNotPublished(key);
        if (receivers === PUBLISH_REFUSED) this.onRefused('Redis refused to publish a release');
        return receivers !== NOT_OURS;
      },
      (error: unknown) => {
        if (own > 0) this.pubsub?.onNotPublished(key);
        throw releaseFailed(error);
      },
    );
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const calls = requests.map(({ keys, owner, leaseMs }) => ({
      key: keys[0],
      keys: [keys[0]],
      args: [this.owners.fieldOf(owner), wholeMs(leaseMs)],
    }));
    const replies = await this.topology.runAll(extendScript, calls);
    return extendReplies(requests, replies, this.listener);
  }

  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    const { clock, requestTimeoutMs } = this.times;
    return forcedRelease(clock, requestTimeoutMs, (checkTime) =>
      this.topology.sendToNode(request.key, (server) => this.forceReleaseAt(server, request, checkTime)),
    );
  }

  async inspect(key: string): Promise<HolderInfo | null> {
    try {
      const run = ({ connection }: RedisNode) => inspectScript.run(connection, this.keysOf(key), []);
      return this.withInstance(await this.topology.sendToNode(key, run));
    } catch (error) {
      throw unavailableBecause(error, 'an inspection');
    }
  }

  list(request: ListRequest): AsyncIterable<ListedLock> {
    const inspectAll = async (keys: readonly string[]): Promise<readonly (HolderInfo | null | Error)[]> => {
      const calls = keys.map((key) => ({ key, keys: this.keysOf(key), args: [] }));
      const replies = await withinTime(this.topology.runAll(inspectScript, calls), this.times);
      return replies.map((reply) => (reply instanceof Error ? reply : this.withInstance(reply)));
    };
    return listLocks(request, { pages: this.topology.scan(request), inspectAll });
  }

  async ping(): Promise<StorePing> {
    return toStorePing(await this.topology.ping(), DEGRADED, this.pollingBecause);
  }

  close(): Promise<void> {
    this.pubsub?.close();
    return Promise.resolve();
  }

  private onRefused(why: string): void {
    this.pollingBecause = why;
    this.warn(`${DEGRADED}: ${why}`);
  }

  /** Returns the holder with the id of its instance, if this process knows it. */
  private withInstance(info: HolderInfo | null): HolderInfo | null {
    return info === null ? null : { ...info, holder: this.owners.holderOf(info.holder) };
  }

  private releaseAt(
    { connection, failsFast }: RedisNode,
    { keys, owner, closedForMs }: ReleaseRequest,
  ): Promise<number> {
    const [key] = keys;
    // In the client's queue releases would pile up during an outage. The engine repeats a failed release.
    if (!failsFast) return Promise.reject(new Error('there is no connection'));
    const args = [this.owners.fieldOf(owner), String(closedForMs), this.channelOf(key), ...this.publishArgs];
    return releaseScript.run(connection, [key], args);
  }

  private async forceReleaseAt(
    { connection }: RedisNode,
    { key, ifToken }: ForceReleaseRequest,
    checkTime: () => void,
  ): Promise<boolean> {
    const held = await inspectScript.run(connection, this.keysOf(key), []);
    // A request queued in the client outlives an outage.
    checkTime();
    if (held === null || (ifToken !== undefined && held.token !== ifToken)) return false;
    const args = [held.holder, this.channelOf(key), ...this.publishArgs];
    const { losses } = connection;
    const released = await forceReleaseScript.run(connection, [key], args);
    // The client resent the script, and its first run may have released the lock.
    if (!released && connection.losses !== losses) throw new Error('the connection ended before the reply');
    return released;
  }

  private keysOf(key: string): readonly string[] {
    return this.fencing ? [key, tokenKeyOf(key)] : [key];
  }

  /** Returns the channel of a key. A client applies its prefix to keys, but not to channels. */
  private channelOf(key: string): string {
    return channelOf(this.topology.prefix + key);
  }
}
