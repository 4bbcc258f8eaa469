import type { LockUnavailableError } from '../core/errors.js';
import type {
  AskReply,
  AskRequest,
  ExtendReply,
  ExtendRequest,
  HolderInfo,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from '../core/lock-store.js';
import { DatedAsks, type DatedReply, PAST_DEADLINE } from './dated-asks.js';
import { HandOffChannel, type HandOffMessage } from './hand-off-channel.js';
import { QueuedOwners } from './queued-owners.js';
import { RedisConnection } from './redis-connection.js';
import { unavailableBecause } from './redis-errors.js';
import { ReplicatedStore } from './replicated.store.js';
import type { StoreContext, StoreFactory } from './store-context.js';
import {
  askScript,
  extendScript,
  GRANTED,
  GRANTED_BEFORE,
  inspectScript,
  keysOf,
  QUEUED,
  releaseScript,
  wholeMs,
} from './token-scripts.js';

/**
 * The default store: one key with its owner and its fencing token, on one Redis (or Valkey) from 6.2 on.
 *
 * Every lease and token is measured by the server's clock. A grant can be violated only where the server itself forgets:
 * a failover that lost the write, a flush, an eviction policy that takes keys with a TTL.
 *
 * @publicApi
 */
export function token(): StoreFactory {
  return (context) => {
    const store = new TokenStore(context);
    return context.replicas === undefined ? store : new ReplicatedStore(store, context.replicas, context);
  };
}

class TokenStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    queue: true,
    fencing: true,
    idempotentAsk: true,
    modes: ['exclusive'],
    maxKeys: 1,
    resolutionMs: 1,
  };

  private readonly connection: RedisConnection;
  private readonly asks: DatedAsks;
  private readonly queued = new QueuedOwners();
  private channel: HandOffChannel | undefined;

  constructor(private readonly context: StoreContext) {
    this.connection = new RedisConnection(context.redis(), context.clock, context.requestTimeoutMs);
    this.asks = new DatedAsks(this.connection, context.clock);
  }

  listen(listener: StoreListener): () => void {
    const { clock, requestTimeoutMs } = this.context;
    let warned = false;
    const refused = (why: string): void => {
      if (!warned)
        listener.degraded(`Waiting for locks costs more requests, because nobody can be told of them: ${why}`);
      warned = true;
    };
    const handedOver = (message: HandOffMessage): void => this.handedOver(message, listener);
    const listening = (): void => listener.listening();
    const events = { handedOver, listening, refused };
    this.channel = new HandOffChannel(listener.instanceId, this.connection, clock, requestTimeoutMs, events);
    return this.connection.listen(listener, this.channel);
  }

  ask(request: AskRequest): Promise<AskReply> {
    return this.asks
      .send(request, (deadline) => this.run(request, deadline))
      .then((reply) => this.answerOf(request, reply));
  }

  release({ keys, owner, keepMs, tokens, handOffMs }: ReleaseRequest): Promise<boolean> {
    const unsent = this.asks.callOff(owner);
    if (unsent && !this.queued.has(owner)) return Promise.resolve(false);
    // Waiting in the client's queue through an outage, releases would pile up there: whoever gives back repeats them.
    if (!this.connection.ready) return Promise.reject(releaseFailed(new Error('there is no connection')));
    // Where there is a queue, whoever still waits here asks anew in the same tick, and must not be late for its place.
    if (this.queued.has(owner)) this.connection.gather();
    const args = [owner, String(keepMs), String(tokens), wholeMs(handOffMs)];
    const answered = (wasHeld: boolean): boolean => {
      this.queued.delete(owner);
      return wasHeld;
    };
    const failed = (error: unknown): never => {
      throw releaseFailed(error);
    };
    return releaseScript.run(this.connection, keysOf(keys[0]), args).then(answered, failed);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const calls = requests.map(({ keys, owner, leaseMs }) => ({ keys, args: [owner, wholeMs(leaseMs)] }));
    const replies = await extendScript.runAll(this.connection, calls);
    return replies.map((reply) => (reply instanceof Error ? 'unknown' : reply));
  }

  async inspect(key: string): Promise<HolderInfo | null> {
    try {
      return await inspectScript.run(this.connection, [key], []);
    } catch (error) {
      throw unavailableBecause(error, 'a look at a lock');
    }
  }

  close(): Promise<void> {
    this.channel?.close();
    // What is answered later opens it no more.
    this.channel = undefined;
    return Promise.resolve();
  }

  private run({ keys: [key], owner, leaseMs, tokens, handOffMs, queue }: AskRequest, deadline: string) {
    const waits = queue && this.mayQueue(owner, key) ? '1' : '0';
    const args = [owner, wholeMs(leaseMs), deadline, String(tokens), waits, wholeMs(handOffMs)];
    return askScript.run(this.connection, keysOf(key), args);
  }

  private answerOf({ keys, queue, tokens }: AskRequest, { status, value }: DatedReply): AskReply {
    if (status === GRANTED) return { status: 'granted', token: value, tokens };
    if (status === PAST_DEADLINE) return { status: 'expired' };
    // Nobody remembers how many were set aside with it.
    if (status === GRANTED_BEFORE) return { status: 'granted', token: value, tokens: 1 };
    // Others hold it: from now on it is worth while to be told.
    if (queue) this.channel?.open(() => this.context.subscriber(), keys[0]);
    return { status: 'held', queued: status === QUEUED, remainingMs: value === -1 ? Infinity : value };
  }

  /** Who waits in the queue has to hear of the lock: without a subscription it is passed over as dead. */
  private mayQueue(owner: string, key: string): boolean {
    if (!this.channel?.confirmed) return false;
    this.channel.check();
    this.queued.add(owner, key, this.context.clock.now());
    return true;
  }

  private handedOver({ owner, token: first, tokens, grantedAt, leaseMs }: HandOffMessage, to: StoreListener): void {
    const key = this.queued.keyOf(owner);
    // Told late: its release has been answered.
    if (key === undefined) return;
    const since = this.connection.notAfter(grantedAt);
    to.handedOver({ keys: [key], owner, token: first, tokens, grantedAt: since, leaseMs });
  }
}

function releaseFailed(error: unknown): LockUnavailableError {
  return unavailableBecause(error, 'a release');
}
