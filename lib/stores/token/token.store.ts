import type { ReplyListener } from '../../contract/reply-listener.js';
import { ServerSigns } from '../../contract/server-signs.js';
import type { Clock } from '../../clock/clock.js';
import { TimeoutPool } from '../../clock/timeout-pool.js';
import { forcedRelease } from '../../redis/forced-release.js';
import { toError, unavailableBecause } from '../../redis/redis-errors.js';
import { isCluster } from '../../redis/client-port.js';
import { type EmbeddedScript, RedisScript, wholeMs } from '../../redis/redis-script.js';
import { topologyOf } from '../../redis/single-node.js';
import type { Topology } from '../../redis/topology.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type ForceReleaseRequest,
  type KeyFilter,
  type ListedLock,
  type ListRequest,
  type LockState,
  type LockStore,
  type ReleaseRequest,
  type StoreCapabilities,
  type StoreListener,
  type StorePing,
  type TransferReply,
  type TransferRequest,
  UnansweredError,
} from '../../contract/store.js';
import { listLocks } from '../list-locks.js';
import type { StoreContext } from '../store-context.js';
import { warnOnce } from '../warn-once.js';
import { InstanceChannels } from './instance-channels.js';
import { LockNames } from './lock-names.js';
import { type LockRequest, type LockScripts, Outbox } from './outbox.js';
import { scripts } from './scripts.js';
import {
  decodeAcquire,
  decodeExtend,
  decodeHolders,
  decodeInspected,
  decodeQueue,
  decodeRelease,
  decodeTransfer,
  decodeWake,
  aboutOf,
  entryOf,
  stateOf,
} from './wire.js';

const DEGRADED = 'Waiting for locks costs more requests, because messages cannot be received';

const MUTE = 'Waiters learn up to 1 s late that they have a lock, because no messages can be sent';

const raw = (script: EmbeddedScript): RedisScript<unknown> => new RedisScript(script, (reply) => reply);

const ACQUIRE = { one: raw(scripts.acquire), many: raw(scripts.acquireMany) };
const RELEASE = { one: raw(scripts.release), many: raw(scripts.releaseMany) };
const EXTEND = { one: raw(scripts.extend), many: raw(scripts.extendMany) };
const TRANSFER = { one: raw(scripts.transfer) };
const FORCE_RELEASE = new RedisScript(scripts.forceRelease, Number);
const INSPECT = new RedisScript(scripts.inspect, decodeInspected);
const INSPECT_HOLDERS = new RedisScript(scripts.inspectHolders, decodeHolders);
const INSPECT_QUEUE = new RedisScript(scripts.inspectQueue, decodeQueue);

/**
 * The store behind `token()`. Each lock is one key with its owner and its fencing token, on one Redis server of version
 * 6.2 or later, or on the node of a cluster (7.0) that has its slot.
 *
 * A message only wakes: the owner then repeats its request, whose reply grants. So lost, late and repeated messages,
 * reconnections and new subscriptions are all one path.
 */
export class TokenStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'token()',
    queue: true,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive', 'shared', 'permits'],
    replicas: true,
    once: true,
    resolutionMs: 1,
  };

  readonly topology: Topology;
  /** @internal */
  readonly names: LockNames;
  /** @internal Public for tests. */
  channels: InstanceChannels | undefined;
  private readonly clock: Clock;
  private readonly requestTimeoutMs: number;
  private readonly timeouts: TimeoutPool;
  private readonly outbox: Outbox;
  private listener: StoreListener | undefined;
  private stopWatching: (() => void) | undefined;
  /** What is limited because messages cannot be received. Undefined if they can, or if that has not been tried yet. */
  private refusal: string | undefined;
  /** Reports once that waiting costs more requests, or more time. */
  private readonly warn = warnOnce((message) => this.listener?.onDegraded(message));

  constructor(context: StoreContext) {
    const { clock, requestTimeoutMs } = context;
    this.clock = clock;
    this.requestTimeoutMs = requestTimeoutMs;
    this.topology = topologyOf(context);
    this.names = new LockNames(this.topology.prefix, context.prefix, isCluster(context.redis()));
    const { topology, names } = this;
    this.timeouts = new TimeoutPool(clock, requestTimeoutMs, new ServerSigns(topology, requestTimeoutMs));
    const handingOff: LockScripts['head'] = (requests) => this.headOf(requests);
    const renewing: LockScripts['head'] = (requests) => ({ keys: this.heldKeysOf(requests), args: [] });
    this.outbox = new Outbox({
      topology,
      names,
      clock,
      requestTimeoutMs,
      limitRequest: this.timeouts.limitRequest,
      scripts: {
        acquire: { ...ACQUIRE, head: handingOff },
        release: { ...RELEASE, head: handingOff },
        extend: { ...EXTEND, head: renewing },
        transfer: { ...TRANSFER, head: ([{ key }]) => ({ keys: [names.keysOf(key).lock], args: [] }) },
      },
      onSilent: (key, why) => {
        // A stopped node keeps its connection open, so only its silence shows that another may have its slots.
        topology.refresh?.();
        this.listener?.onDown(new UnansweredError(why), this.serverOf(key));
      },
    });
  }

  listen(listener: StoreListener): void {
    this.listener = listener;
    const { topology, names, clock } = this;
    this.channels = new InstanceChannels(listener.instanceId, topology, names, clock, {
      onMessage: (message) => this.onMessage(message, listener),
      onSubscribed: (concerns) => {
        this.refusal = undefined;
        listener.onSubscribed(concerns);
      },
      onRefused: (why) => {
        this.refusal = `${DEGRADED}: ${why}`;
        this.warn(this.refusal);
      },
      onMute: (why) => this.warn(`${MUTE}: ${why}`),
    });
    const onDisconnected = (concerns?: KeyFilter): void => this.onDisconnected(concerns);
    this.stopWatching = topology.watch({ ...listener, onDisconnected }, this.channels.subscriptions);
  }

  serverOf(key: string): string | undefined {
    return this.topology.serverOf?.(key);
  }

  canQueue(key: string): boolean {
    return this.channels?.mayHear(key) !== false;
  }

  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    const { key, leaseMs, wait, handoffMs } = request;
    const askedAt = wait ? this.clock.now() : 0;
    const decoded = (reply: unknown): AcquireReply => {
      const from = Array.isArray(reply) ? this.topology.nodeOf(key)?.connection : undefined;
      const acquired = decodeAcquire(reply, from);
      // From now on a subscription is worth its cost.
      if (wait && acquired.status === 'held' && acquired.isDone !== true)
        this.channels?.onHeld(key, acquired.queued, askedAt);
      return acquired;
    };
    const args = [entryOf(request), wholeMs(leaseMs), wait ? '1' : '0', aboutOf(request)];
    this.outbox.add('acquire', { key, handoffMs, args, done: outcomeOf(decoded, listener, 'a lock') });
  }

  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    const { key, mode, closedForMs, isDone, handoffMs } = request;
    const closed = wholeMs(closedForMs);
    const isMarked = isDone === true && mode === 'exclusive' && closedForMs > 0;
    const args = [entryOf(request), isMarked ? `-${closed}` : closed];
    this.outbox.add('release', { key, handoffMs, args, done: outcomeOf(decodeRelease, listener, 'a release') });
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const replies = requests.map((request) => this.extendOne(request));
    // The work under these locks may block the event loop.
    this.outbox.flush();
    return Promise.all(replies);
  }

  transfer(request: TransferRequest, listener: ReplyListener<TransferReply>): void {
    const { key, from, to, leaseMs, token, restMs } = request;
    const [source, target] = [from, to].map((owner) => entryOf({ owner, mode: 'exclusive' }));
    const limit = restMs === undefined ? '' : String(Math.floor(restMs));
    const args = [source, target, wholeMs(leaseMs), token === undefined ? '' : String(token), limit];
    const done = outcomeOf(decodeTransfer, listener, 'a transfer');
    this.outbox.addAlone('transfer', { key, handoffMs: 0, args, done });
  }

  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    return forcedRelease(this.clock, this.requestTimeoutMs, async (checkTime) => {
      // Requests of this tick come first.
      this.outbox.flush();
      const [exclusive, sharers] = await this.read(request.key);
      checkTime();
      const { ifToken } = request;
      if (ifToken !== undefined && exclusive?.token !== ifToken) return false;
      if (exclusive === null && sharers.length === 0) return false;
      const entries = sharers.map(({ entry }) => `${entry},`).join('');
      return this.end(request, exclusive?.digest ?? '', entries);
    });
  }

  async inspect(key: string): Promise<LockState | null> {
    this.outbox.flush();
    try {
      return await this.stateNow(key);
    } catch (error) {
      throw unavailableBecause(error, 'an inspection');
    }
  }

  list(request: ListRequest): AsyncIterable<ListedLock> {
    const pages = this.topology.scan(request);
    const lockOf = (name: string): string | undefined => this.names.lockOf(name);
    const inspect = (key: string): Promise<LockState | null> => this.stateNow(key);
    const { clock, requestTimeoutMs } = this;
    return listLocks(request, { pages, lockOf, inspect }, { clock, requestTimeoutMs });
  }

  ping(): Promise<StorePing> {
    return this.topology.ping(this.refusal);
  }

  close(): Promise<void> {
    this.listener = undefined;
    this.stopWatching?.();
    this.channels?.close();
    // A late reply must not open the channels again.
    this.channels = undefined;
    this.timeouts.close();
    return Promise.resolve();
  }

  /** Called if a connection has ended. */
  protected onDisconnected(concerns?: KeyFilter): void {
    this.outbox.onDisconnected(concerns);
  }

  private extendOne(request: ExtendRequest): Promise<ExtendReply> {
    const { key, leaseMs } = request;
    return new Promise((resolve) => {
      const onFailed = (error: unknown): void => {
        // Silence and ended connections are reported for the whole server.
        if (!(error instanceof UnansweredError)) this.listener?.onExtendFailed(key, toError(error));
        resolve('unknown');
      };
      const done = outcomeOf(decodeExtend, { onReply: resolve, onFailed }, 'a renewal');
      this.outbox.add('extend', { key, handoffMs: 0, args: [entryOf(request), wholeMs(leaseMs)], done });
    });
  }

  /** Returns the keys and the common arguments of a script for locks of one group. */
  private headOf(requests: readonly Pick<LockRequest, 'key' | 'handoffMs'>[]): { keys: string[]; args: string[] } {
    const { names } = this;
    const [{ key: first, handoffMs }] = requests;
    const locks = requests.map(({ key }) => names.keysOf(key));
    const keys = [locks[0].fence];
    for (const { lock } of locks) keys.push(lock);
    for (const { queue } of locks) keys.push(queue);
    for (const { holders } of locks) keys.push(holders);
    return { keys, args: [wholeMs(handoffMs), names.channelsOf(first), names.isCluster ? '1' : '0'] };
  }

  /** Returns the keys of a script that renews leases. Only an owner that shares its lock is in a second key. */
  private heldKeysOf(requests: readonly LockRequest[]): string[] {
    const locks = requests.map(({ key }) => this.names.keysOf(key));
    const keys = locks.map(({ lock }) => lock);
    if (requests.length === 1 && !requests[0].args[0].includes(' ')) return keys;
    for (const { holders } of locks) keys.push(holders);
    return keys;
  }

  private async stateNow(key: string): Promise<LockState | null> {
    return stateOf(...(await this.read(key)), this.topology.nodeOf(key)?.connection);
  }

  /** Returns who holds a lock and who waits for it. */
  private read(key: string) {
    const { lock, holders, queue } = this.names.keysOf(key);
    const run = <T>(script: RedisScript<T>, name: string): Promise<T> =>
      this.topology.sendToNode(key, ({ connection }) => {
        connection.cork();
        return script.run(connection, [name], []);
      });
    // Scripts with one key each: while a cluster moves a slot, a script with several keys is refused. They have no time
    // limit, because the engine limits an inspection.
    return Promise.all([run(INSPECT, lock), run(INSPECT_HOLDERS, holders), run(INSPECT_QUEUE, queue)]);
  }

  private end(request: ForceReleaseRequest, digest: string, entries: string): Promise<boolean> {
    const { names } = this;
    const { isSlotted } = names;
    const { keys, args } = this.headOf([request]);
    const ended = this.topology.sendToNode(request.key, async ({ connection, failsFast }) => {
      // In the client's queue it would wait through an outage.
      if (!failsFast) throw new Error('there is no connection');
      const { losses } = connection;
      const count = await FORCE_RELEASE.run(connection, keys, [...args, digest, entries]);
      // The client resent the script, and its first run may have released the lock.
      if (count === 0 && connection.losses !== losses) throw new Error('the connection ended before the reply');
      return count > 0;
    });
    return ended.catch((error: unknown) => {
      if (!isSlotted && names.learnsSlots(error)) return this.end(request, digest, entries);
      throw error;
    });
  }

  private onMessage(message: string, listener: StoreListener): void {
    const decoded = decodeWake(message);
    const { prefix } = this.topology;
    if (decoded === undefined || !decoded.key.startsWith(prefix)) return;
    const { owner, key, mode } = decoded;
    if (owner.startsWith(`${listener.instanceId}:`)) listener.onWake(owner, key.slice(prefix.length), mode);
  }
}

/**
 * Returns what a request calls with its outcome.
 *
 * @param subject what it is for, in errors.
 */
function outcomeOf<Reply>(
  decode: (reply: unknown) => Reply,
  listener: ReplyListener<Reply>,
  subject: string,
): LockRequest['done'] {
  return (error, reply) => {
    if (error instanceof UnansweredError) return listener.onFailed(error);
    let decoded: Reply;
    try {
      if (error !== undefined) throw error;
      // A server or a proxy may send what no script returns.
      decoded = decode(reply);
    } catch (failure) {
      return listener.onFailed(unavailableBecause(failure, subject));
    }
    listener.onReply(decoded);
  };
}
