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
import { fenceKey, helperKey } from '../core/resource-key.js';
import { luaScripts } from '../lua/index.js';
import { HandOffChannel, type HandOffMessage } from './hand-off-channel.js';
import { RedisConnection } from './redis-connection.js';
import { unavailableBecause } from './redis-errors.js';
import { RedisScript } from './redis-script.js';
import type { StoreContext, StoreFactory } from './store-context.js';

/** What the scripts answer to an ask. */
const GRANTED = 1;
const GRANTED_BEFORE = 2;
const QUEUED = 3;
const PAST_DEADLINE = -1;

/** A client with `stringNumbers` answers strings. */
const askScript = new RedisScript(luaScripts.tokenAsk, (reply) => {
  const [status, value, now] = (reply as unknown[]).map(Number) as [number, number, number];
  return { status, value, now };
});
const releaseScript = new RedisScript(luaScripts.tokenRelease, (reply) => Number(reply) === 1);
const extendScript = new RedisScript(luaScripts.tokenExtend, (reply): ExtendReply =>
  Number(reply) === 1 ? 'renewed' : 'lost',
);
const inspectScript = new RedisScript(luaScripts.tokenInspect, (reply) => {
  if (reply === null) return null;
  const [value, ttl] = reply as [value: string, ttl: number | string];
  return holderOf(value, Number(ttl));
});

/**
 * The default store: one key with its owner and its fencing token, on one Redis (or Valkey) from 6.2 on.
 *
 * Every lease and token is measured by the server's clock. A grant can be violated only where the server itself forgets:
 * a failover that lost the write, a flush, an eviction policy that takes keys with a TTL.
 *
 * @publicApi
 */
export function token(): StoreFactory {
  return (context) => new TokenStore(context);
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
  /** Owners whose ask waits for the connection still: a release behind one simply calls it off. */
  private readonly unsent = new Set<string>();
  /** The keys of the owners that may stand in a queue. */
  private readonly waitingFor = new Map<string, string>();
  private channel: HandOffChannel | undefined;

  constructor(private readonly context: StoreContext) {
    this.connection = new RedisConnection(context.redis(), context.clock, context.requestTimeoutMs);
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
    return this.connection.listen(listener);
  }

  async ask(request: AskRequest): Promise<AskReply> {
    try {
      if (!(await this.synchronised(request))) return { status: 'expired' };
      const reply = await this.askOnce(request);
      // The server's clock may have been set forward since it was last heard: its answer has told, so ask once more.
      return reply.status === 'expired' ? await this.askOnce(request) : reply;
    } catch (error) {
      throw unavailableBecause(error, 'a lock');
    }
  }

  async release({ keys, owner, keepMs, tokens, handOffMs }: ReleaseRequest): Promise<boolean> {
    this.waitingFor.delete(owner);
    if (this.unsent.delete(owner)) return false;
    // Waiting in the client's queue through an outage, releases would pile up there: whoever gives back repeats them.
    if (!this.connection.ready) throw unavailableBecause(new Error('there is no connection'), 'a release');
    try {
      const [key] = keys as readonly [string];
      const args = [owner, String(keepMs), String(tokens), wholeMs(handOffMs)];
      return await releaseScript.run(this.connection, keysOf(key), args);
    } catch (error) {
      throw unavailableBecause(error, 'a release');
    }
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const calls = requests.map(({ keys, owner, leaseMs }) => ({ keys, args: [owner, wholeMs(leaseMs)] }));
    try {
      const replies = await extendScript.runAll(this.connection, calls);
      return replies.map((reply) => (reply instanceof Error ? 'unknown' : reply));
    } catch {
      return requests.map(() => 'unknown');
    }
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
    return Promise.resolve();
  }

  /** Waits for the server's time, if need be; false if the ask was called off meanwhile. */
  private async synchronised({ owner, expiresAt }: AskRequest): Promise<boolean> {
    if (this.connection.microsAt(expiresAt) !== undefined) return true;
    this.unsent.add(owner);
    let wanted = false;
    try {
      await this.connection.synchronise(expiresAt);
    } finally {
      wanted = this.unsent.delete(owner);
    }
    return wanted;
  }

  private async askOnce(request: AskRequest): Promise<AskReply> {
    const { keys, owner, leaseMs, expiresAt, tokens, handOffMs } = request;
    const { clock } = this.context;
    const deadline = this.connection.microsAt(expiresAt);
    const sentAt = clock.now();
    // Without a connection, or without anybody who still waits for the answer, it is not sent at all.
    if (deadline === undefined || sentAt >= expiresAt) return { status: 'expired' };
    const [key] = keys as readonly [string];
    const queue = request.queue && this.mayQueue(owner, key) ? '1' : '0';
    const args = [owner, wholeMs(leaseMs), String(deadline), String(tokens), queue, wholeMs(handOffMs)];
    const { status, value, now } = await askScript.run(this.connection, keysOf(key), args);
    this.connection.heard(now, sentAt);
    if (status === PAST_DEADLINE) return { status: 'expired' };
    if (status === GRANTED) return { status: 'granted', token: value, tokens };
    // Nobody remembers how many were set aside with it.
    if (status === GRANTED_BEFORE) return { status: 'granted', token: value, tokens: 1 };
    // Others hold it: from now on it is worth while to be told.
    if (request.queue) this.channel?.open(() => this.context.subscriber());
    return { status: 'held', queued: status === QUEUED, remainingMs: value === -1 ? Infinity : value };
  }

  /** Who waits in the queue has to hear of the lock: without a subscription it is passed over as dead. */
  private mayQueue(owner: string, key: string): boolean {
    if (!this.channel?.confirmed) return false;
    this.channel.check();
    this.waitingFor.set(owner, key);
    return true;
  }

  private handedOver({ owner, token: first, tokens, grantedAt, leaseMs }: HandOffMessage, to: StoreListener): void {
    const key = this.waitingFor.get(owner);
    // Not known (any more): a release of it is on its way.
    if (key === undefined) return;
    const since = this.connection.notAfter(grantedAt);
    to.handedOver({ keys: [key], owner, token: first, tokens, grantedAt: since, leaseMs });
  }
}

/** The lock, the last fencing token under its hash tag, and the queue for it. */
function keysOf(key: string): readonly string[] {
  return [key, fenceKey(key), helperKey(key, 'queue')];
}

/** Redis takes whole milliseconds; rounded up, so that a lease never ends there before it ends here. */
function wholeMs(leaseMs: number): string {
  return String(Math.ceil(leaseMs));
}

/** Values of this store are `<instanceId>:<askId> <token>`; what another system wrote is shown as it is. */
function holderOf(value: string, ttl: number): HolderInfo {
  const ours = /^([\w-]+):\d+ (\d+)$/.exec(value);
  return {
    holder: ours?.[1] ?? value,
    remainingMs: ttl === -1 ? Infinity : ttl,
    token: ours === null ? undefined : Number(ours[2]),
  };
}
