import type { Clock } from '../../core/time/clock.js';
import { LockConfigError, type LockUnavailableError } from '../../core/errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockState,
  KeyFilter,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from '../../core/store/lock-store.js';
import type { DeadlineReply } from '../../redis/deadline-requests.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import { type RedisScript, wholeMs } from '../../redis/redis-script.js';
import type { RedisNode } from '../../redis/topology.js';
import type { StoreContext, StoreFactory } from '../store-context.js';
import { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { ClusterAcks } from './replication/cluster-acks.js';
import { decodeAcquireReply } from './acquire-reply.js';
import { encodeEntry } from './queue-entry.js';
import type { HandoffMessage, HandoffChannels } from './handoff/handoff-channel.js';
import { QueuedOwners } from './queued-owners.js';
import { type Acks, ReplicaAcks } from './replication/replica-acks.js';
import type { ReplicaDemand } from './replication/replica-options.js';
import { ReplicatedStore } from './replication/replicated.store.js';
import {
  acquireManyScript,
  acquireScript,
  extendScript,
  inspectScript,
  keysOfAll,
  queueScript,
  releaseScript,
  renewalOf,
} from './token-scripts.js';
import { tokenTopology, type TokenTopology } from './token-topology.js';

/**
 * The default store: one key with its owner and its fencing token, on one Redis (or Valkey) from 6.2 on, or on the node of a
 * cluster that has the key's slot.
 *
 * Every lease and token is measured by the server's clock. A grant can be violated only where the server itself forgets:
 * a failover that lost the write, a flush, an eviction policy that takes keys with a TTL.
 *
 * @publicApi
 */
export function token(): StoreFactory {
  return (context) => {
    const store = new TokenStore(context);
    const { replicas, clock } = context;
    if (replicas === undefined) return store;
    return new ReplicatedStore(store, (warn) => acksOf(store.servers, replicas, context, warn), clock);
  };
}

/** So that one script never keeps others waiting for long. */
const MAX_KEYS = 256;

class TokenStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'token()',
    queue: true,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive', 'shared', 'permits'],
    maxKeys: MAX_KEYS,
    resolutionMs: 1,
  };

  readonly serverOf: LockStore['serverOf'];
  readonly servers: TokenTopology;
  private readonly clock: Clock;
  private readonly queued = new QueuedOwners();
  private channel: HandoffChannels | undefined;

  constructor(context: StoreContext) {
    this.clock = context.clock;
    this.servers = tokenTopology(context);
    this.serverOf = this.servers.serverOf?.bind(this.servers);
  }

  listen(listener: StoreListener): () => void {
    let warned = false;
    const onRefused = (why: string): void => {
      if (!warned)
        listener.onDegraded(`Waiting for locks costs more requests, because nobody can be told of them: ${why}`);
      warned = true;
    };
    const onHandoff = (message: HandoffMessage, from: RedisConnection): void =>
      this.handedOver(message, from, listener);
    const onSubscribed = (concerns?: KeyFilter): void => listener.onSubscribed(concerns);
    const heard = this.servers.listen(listener, { onHandoff, onSubscribed, onRefused });
    this.channel = heard.handoffs;
    return () => heard.stop();
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const send = (server: RedisNode): Promise<DeadlineReply> =>
      server.deadlineRequests.send(request, (deadline) => this.run(request, server, deadline));
    return this.servers.run(request.keys[0], send).then((reply) => this.answered(request, reply));
  }

  release(request: ReleaseRequest): Promise<boolean> {
    const { keys, owner } = request;
    const unsent = this.servers.cancel(owner);
    if (unsent && !this.queued.has(owner)) return Promise.resolve(false);
    const answered = (wasHeld: boolean): boolean => {
      this.queued.delete(owner);
      return wasHeld;
    };
    const failed = (error: unknown): never => {
      throw releaseFailed(error);
    };
    return this.servers.run(keys[0], (server) => this.releaseAt(server, request)).then(answered, failed);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const calls = requests.map((request) => renewalOf(request, this.servers));
    const replies = await this.servers.runAll(extendScript, calls);
    return replies.map((reply) => (reply instanceof Error ? 'unknown' : reply));
  }

  async inspect(key: string): Promise<LockState | null> {
    try {
      const [lock, , queue] = this.servers.keysOf(key);
      const looks = [this.look(key, inspectScript, lock), this.look(key, queueScript, queue)] as const;
      const [alone, { sharers, waiting }] = await Promise.all(looks);
      const [first = alone, ...others] = sharers;
      return first && { ...first, others, waiting };
    } catch (error) {
      throw unavailableBecause(error, 'a look at a lock');
    }
  }

  /** At one key: while a cluster moves a slot, others that are not there would put it off. */
  private look<T>(key: string, script: RedisScript<T>, name: string): Promise<T> {
    return this.servers.run(key, ({ connection }) => script.run(connection, [name], []));
  }

  close(): Promise<void> {
    this.channel?.close();
    // What is answered later opens it no more.
    this.channel = undefined;
    return Promise.resolve();
  }

  private run(request: AcquireRequest, server: RedisNode, deadline: string): Promise<DeadlineReply> {
    const { owner, leaseMs, tokens, handoffMs, queue } = request;
    const [key, ...others] = request.keys;
    if (others.length > 0) return this.runForAll(request, server, deadline);
    const waits = queue && this.mayQueue(owner, key, server) ? '1' : '0';
    const args = [encodeEntry(request), wholeMs(leaseMs), deadline, String(tokens), waits, wholeMs(handoffMs)];
    args.push(...this.servers.handoffArgs(key));
    return acquireScript.run(server.connection, this.servers.keysOf(key), args);
  }

  private runForAll(request: AcquireRequest, { connection }: RedisNode, deadline: string): Promise<DeadlineReply> {
    const args = [encodeEntry(request), wholeMs(request.leaseMs), deadline];
    return acquireManyScript.run(connection, keysOfAll(request.keys, this.servers), args);
  }

  private releaseAt({ connection, accepting }: RedisNode, request: ReleaseRequest): Promise<boolean> {
    const { keys, owner, keepMs, tokens, handoffMs } = request;
    const [key] = keys;
    // Waiting in the client's queue through an outage, releases would pile up there: whoever gives back repeats them.
    if (!accepting) return Promise.reject(new Error('there is no connection'));
    // Where there is a queue, whoever still waits here asks anew in the same tick, and must not be late for its place.
    if (this.queued.has(owner)) connection.gather();
    const args = [encodeEntry(request), String(keepMs), String(tokens), wholeMs(handoffMs)];
    args.push(...this.servers.handoffArgs(key));
    return releaseScript.run(connection, this.servers.keysOf(key), args);
  }

  private answered(request: AcquireRequest, reply: DeadlineReply): AcquireReply {
    const answer = decodeAcquireReply(request, reply);
    // Others hold it: from now on it is worth while to be told.
    if (answer.status === 'held' && request.queue) this.channel?.open(request.keys[0]);
    return answer;
  }

  /** Who waits in the queue has to hear of the lock: without a subscription it is passed over as dead. */
  private mayQueue(owner: string, key: string, server: RedisNode): boolean {
    if (!this.channel?.hears(key, server)) return false;
    this.queued.add(owner, key, this.clock.now());
    return true;
  }

  private handedOver(message: HandoffMessage, from: RedisConnection, to: StoreListener): void {
    const { owner, mode, token: first, tokens, grantedAt, leaseMs } = message;
    const key = this.queued.keyOf(owner);
    // Told late: its release has been answered.
    if (key === undefined) return;
    const since = from.localLowerBound(grantedAt);
    to.onHandoff({ keys: [key], owner, mode, token: first, tokens, grantedAt: since, leaseMs });
  }
}

/** @throws LockConfigError where there can be no second connection. */
function acksOf(
  servers: TokenTopology,
  demand: ReplicaDemand,
  { clock, requestTimeoutMs }: StoreContext,
  warn: (message: string) => void,
): Acks {
  if (servers instanceof ClusterTopology) return new ClusterAcks(servers, demand, clock, requestTimeoutMs, warn);
  const link = demand.connect();
  if (link !== undefined) return new ReplicaAcks(link, servers, demand, clock, requestTimeoutMs, warn);
  throw new LockConfigError(
    'replicas: it takes a second connection; allowed is a URL, options, or a client of ioredis or of its Cluster.',
  );
}

function releaseFailed(error: unknown): LockUnavailableError {
  return unavailableBecause(error, 'a release');
}
