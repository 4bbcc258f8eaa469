import type { Clock } from '../../core/clock.js';
import { LockConfigError, type LockUnavailableError } from '../../core/errors.js';
import type {
  AskReply,
  AskRequest,
  ExtendReply,
  ExtendRequest,
  LockState,
  KeyFilter,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from '../../core/lock-store.js';
import type { DatedReply } from '../redis/dated-asks.js';
import type { RedisConnection } from '../redis/redis-connection.js';
import { unavailableBecause } from '../redis/redis-errors.js';
import { type RedisScript, wholeMs } from '../redis/redis-script.js';
import type { Server } from '../redis/servers.js';
import type { StoreContext, StoreFactory } from '../store-context.js';
import { ClusterServers } from '../redis/cluster/cluster-servers.js';
import { ClusterAcks } from './cluster-acks.js';
import { askReplyOf } from './ask-reply.js';
import { claimOf } from './claim.js';
import type { HandOffMessage, HandOffs } from './hand-off-channel.js';
import { QueuedOwners } from './queued-owners.js';
import { type Acks, ReplicaAcks } from './replica-acks.js';
import type { ReplicaDemand } from './replica-link.js';
import { ReplicatedStore } from './replicated.store.js';
import {
  askAllScript,
  askScript,
  extendScript,
  inspectScript,
  keysOfAll,
  queueScript,
  releaseScript,
  renewalOf,
} from './token-scripts.js';
import { tokenServers, type TokenServers } from './token-servers.js';

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
    idempotentAsk: true,
    modes: ['exclusive', 'shared', 'counted'],
    maxKeys: MAX_KEYS,
    resolutionMs: 1,
  };

  readonly serverOf: LockStore['serverOf'];
  readonly servers: TokenServers;
  private readonly clock: Clock;
  private readonly queued = new QueuedOwners();
  private channel: HandOffs | undefined;

  constructor(context: StoreContext) {
    this.clock = context.clock;
    this.servers = tokenServers(context);
    this.serverOf = this.servers.serverOf?.bind(this.servers);
  }

  listen(listener: StoreListener): () => void {
    let warned = false;
    const refused = (why: string): void => {
      if (!warned)
        listener.degraded(`Waiting for locks costs more requests, because nobody can be told of them: ${why}`);
      warned = true;
    };
    const handedOver = (message: HandOffMessage, from: RedisConnection): void =>
      this.handedOver(message, from, listener);
    const listening = (concerns?: KeyFilter): void => listener.listening(concerns);
    const heard = this.servers.listen(listener, { handedOver, listening, refused });
    this.channel = heard.handOffs;
    return () => heard.stop();
  }

  ask(request: AskRequest): Promise<AskReply> {
    const send = (server: Server): Promise<DatedReply> =>
      server.asks.send(request, (deadline) => this.run(request, server, deadline));
    return this.servers.run(request.keys[0], send).then((reply) => this.answered(request, reply));
  }

  release(request: ReleaseRequest): Promise<boolean> {
    const { keys, owner } = request;
    const unsent = this.servers.callOff(owner);
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

  private run(request: AskRequest, server: Server, deadline: string): Promise<DatedReply> {
    const { owner, leaseMs, tokens, handOffMs, queue } = request;
    const [key, ...others] = request.keys;
    if (others.length > 0) return this.runForAll(request, server, deadline);
    const waits = queue && this.mayQueue(owner, key, server) ? '1' : '0';
    const args = [claimOf(request), wholeMs(leaseMs), deadline, String(tokens), waits, wholeMs(handOffMs)];
    args.push(...this.servers.handOffArgs(key));
    return askScript.run(server.connection, this.servers.keysOf(key), args);
  }

  private runForAll(request: AskRequest, { connection }: Server, deadline: string): Promise<DatedReply> {
    const args = [claimOf(request), wholeMs(request.leaseMs), deadline];
    return askAllScript.run(connection, keysOfAll(request.keys, this.servers), args);
  }

  private releaseAt({ connection, accepting }: Server, request: ReleaseRequest): Promise<boolean> {
    const { keys, owner, keepMs, tokens, handOffMs } = request;
    const [key] = keys;
    // Waiting in the client's queue through an outage, releases would pile up there: whoever gives back repeats them.
    if (!accepting) return Promise.reject(new Error('there is no connection'));
    // Where there is a queue, whoever still waits here asks anew in the same tick, and must not be late for its place.
    if (this.queued.has(owner)) connection.gather();
    const args = [claimOf(request), String(keepMs), String(tokens), wholeMs(handOffMs)];
    args.push(...this.servers.handOffArgs(key));
    return releaseScript.run(connection, this.servers.keysOf(key), args);
  }

  private answered(request: AskRequest, reply: DatedReply): AskReply {
    const answer = askReplyOf(request, reply);
    // Others hold it: from now on it is worth while to be told.
    if (answer.status === 'held' && request.queue) this.channel?.open(request.keys[0]);
    return answer;
  }

  /** Who waits in the queue has to hear of the lock: without a subscription it is passed over as dead. */
  private mayQueue(owner: string, key: string, server: Server): boolean {
    if (!this.channel?.hears(key, server)) return false;
    this.queued.add(owner, key, this.clock.now());
    return true;
  }

  private handedOver(message: HandOffMessage, from: RedisConnection, to: StoreListener): void {
    const { owner, mode, token: first, tokens, grantedAt, leaseMs } = message;
    const key = this.queued.keyOf(owner);
    // Told late: its release has been answered.
    if (key === undefined) return;
    const since = from.notAfter(grantedAt);
    to.handedOver({ keys: [key], owner, mode, token: first, tokens, grantedAt: since, leaseMs });
  }
}

/** @throws LockConfigError where there can be no second connection. */
function acksOf(
  servers: TokenServers,
  demand: ReplicaDemand,
  { clock, requestTimeoutMs }: StoreContext,
  warn: (message: string) => void,
): Acks {
  if (servers instanceof ClusterServers) return new ClusterAcks(servers, demand, clock, requestTimeoutMs, warn);
  const link = demand.connect();
  if (link !== undefined) return new ReplicaAcks(link, servers, demand, clock, requestTimeoutMs, warn);
  throw new LockConfigError(
    'replicas: it takes a second connection; allowed is a URL, options, or a client of ioredis or of its Cluster.',
  );
}

function releaseFailed(error: unknown): LockUnavailableError {
  return unavailableBecause(error, 'a release');
}
