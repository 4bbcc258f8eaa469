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
import { fenceKey } from '../core/resource-key.js';
import { luaScripts } from '../lua/index.js';
import { RedisConnection } from './redis-connection.js';
import { unavailableBecause } from './redis-errors.js';
import { RedisScript } from './redis-script.js';
import type { StoreContext, StoreFactory } from './store-context.js';

/** Tokens must rise for as long as a resource may remember an old one: a day. */
const FENCE_LIFE_MS = String(24 * 60 * 60 * 1000);

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
    queue: false,
    fencing: true,
    idempotentAsk: true,
    modes: ['exclusive'],
    maxKeys: 1,
    resolutionMs: 1,
  };

  private readonly connection: RedisConnection;
  /** Owners whose ask waits for the connection still: a release behind one simply calls it off. */
  private readonly unsent = new Set<string>();

  constructor(private readonly context: StoreContext) {
    this.connection = new RedisConnection(context.redis(), context.clock, context.requestTimeoutMs);
  }

  listen(listener: StoreListener): () => void {
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

  async release({ keys, owner, keepMs }: ReleaseRequest): Promise<boolean> {
    if (this.unsent.delete(owner)) return false;
    // Waiting in the client's queue through an outage, releases would pile up there: whoever gives back repeats them.
    if (!this.connection.ready) throw unavailableBecause(new Error('there is no connection'), 'a release');
    try {
      return await releaseScript.run(this.connection, keys, [owner, String(keepMs)]);
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

  private async askOnce({ keys, owner, leaseMs, expiresAt }: AskRequest): Promise<AskReply> {
    const { clock } = this.context;
    const deadline = this.connection.microsAt(expiresAt);
    const sentAt = clock.now();
    // Without a connection, or without anybody who still waits for the answer, it is not sent at all.
    if (deadline === undefined || sentAt >= expiresAt) return { status: 'expired' };
    const [key] = keys as readonly [string];
    const args = [owner, wholeMs(leaseMs), String(deadline), FENCE_LIFE_MS];
    const { status, value, now } = await askScript.run(this.connection, [key, fenceKey(key)], args);
    this.connection.heard(now, sentAt);
    if (status === 1) return { status: 'granted', token: value };
    if (status === 0) return { status: 'held', remainingMs: value === -1 ? Infinity : value };
    return { status: 'expired' };
  }
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
