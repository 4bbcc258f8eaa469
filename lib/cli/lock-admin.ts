// All that the command line requests of a store. Loads ioredis, so only `open-admin.ts` imports it, by `import()`.
import { createKeySelectorFactory } from '../core/keys/key-selector.js';
import { createKeyFactory, type KeyFactory, type KeyOptions } from '../core/keys/resource-key.js';
import { handoffLease } from '../core/lease/lease.js';
import { newInstanceId } from '../core/store/instance-id.js';
import type { LockState, StoreListener } from '../core/store/lock-store.js';
import { type Clock, withTimeout } from '../core/time/clock.js';
import { type LockInfo, toLockInfo } from '../lock-info.js';
import type { OwnRedis } from '../redis/open-redis.js';
import { isErrorReply, unavailableBecause } from '../redis/redis-errors.js';
import { TokenStore } from '../stores/token/token.store.js';
import { connectTo, inTime } from './connection.js';
import type { RedisTarget } from './redis-target.js';

/** Where the locks are, and how their keys are made. */
export interface AdminSettings extends KeyOptions {
  readonly target: RedisTarget;
  /** How long the connection, and then each request, may take, in milliseconds. */
  readonly timeoutMs: number;
}

/** About how many keys a server looks at in one step of a scan. */
const SCAN_COUNT = 1_000;

/** How long the end of the command waits until the former holders are notified. */
const NOTICE_MS = 700;

/** The lease and the number of tokens that the next holder of a released lock gets, as a module with defaults does. */
const DEFAULT_LEASE_MS = 30_000;
const TOKENS = 17;

/** Lists, inspects and releases the locks of one prefix. Acquires none. */
export class LockAdmin {
  private readonly stopListening: () => void;

  private constructor(
    /** Returns the key of a resource. Throws `LockKeyError` if the resource cannot form a safe key. */
    readonly keyOf: KeyFactory,
    private readonly settings: AdminSettings,
    private readonly opened: OwnRedis,
    private readonly store: TokenStore,
    private readonly clock: Clock,
  ) {
    this.stopListening = store.listen(silentListener());
  }

  /** @throws CliError if Redis cannot be used. LockConfigError if the prefix cannot form a safe key. */
  static async open(settings: AdminSettings, clock: Clock): Promise<LockAdmin> {
    const { target, prefix, timeoutMs } = settings;
    // An invalid prefix is found before the connection.
    const keyOf = createKeyFactory(settings);
    const opened = await connectTo(target, timeoutMs, clock);
    const store = new TokenStore({
      clock,
      requestTimeoutMs: timeoutMs,
      prefix,
      redis: () => opened.client,
      open: () => opened.client,
    });
    return new LockAdmin(keyOf, settings, opened, store, clock);
  }

  /**
   * Yields the locks that are held or waited for.
   *
   * @param match a glob over resources. Undefined: all.
   * @param onOtherKey is called for a key that looks like a lock of another prefix or hash tag.
   * @throws LockConfigError if the glob is invalid. LockUnavailableError if the list would be incomplete.
   */
  async *list(match?: string, onOtherKey?: (key: string) => void): AsyncGenerator<LockInfo> {
    const selectorOf = createKeySelectorFactory(this.settings);
    const { pattern, resourceOf } = selectorOf(match);
    const all = selectorOf(undefined);
    const isLike = likenessOf(this.settings.prefix);
    const selects = (key: string): boolean => {
      if (resourceOf(key) !== undefined) return true;
      if (isLike(key) && all.resourceOf(key) === undefined) onOtherKey?.(key);
      return false;
    };
    const timeOf = await this.serverTime();
    for await (const { key, state } of this.store.list({ pattern, selects, count: SCAN_COUNT })) {
      yield toInfo(resourceOf(key) as string, key, state, timeOf());
    }
  }

  /**
   * Returns the lock. Null if nobody holds it and nobody waits for it.
   *
   * @throws LockKeyError if the resource cannot form a safe key. LockUnavailableError if Redis did not reply.
   */
  async inspect(resource: string): Promise<LockInfo | null> {
    const key = this.keyOf(resource);
    const timeOf = await this.serverTime();
    const state = await inTime(this.clock, this.settings.timeoutMs, this.store.inspect(key));
    return state && toInfo(resource, key, state, timeOf());
  }

  /**
   * Ends all holds of the lock, or the hold with this token. Returns false if there was none.
   *
   * @throws LockUnavailableError if Redis did not reply. The lock may still have been released.
   */
  release(resource: string, ifToken: number | undefined): Promise<boolean> {
    const request = { key: this.keyOf(resource), ifToken, handoffMs: handoffLease(DEFAULT_LEASE_MS), tokens: TOKENS };
    const released = this.store.forceRelease(request);
    return inTime(this.clock, this.settings.timeoutMs, released, ' The lock may have been released: inspect it.');
  }

  /** Closes the connection, when the holders of locks that were released are notified. */
  async close(): Promise<void> {
    // A holder that is dead is never notified.
    await withTimeout(this.clock, NOTICE_MS, this.store.notified(), () => undefined);
    this.stopListening();
    await this.store.close();
    await this.opened.close();
  }

  /**
   * Returns a clock of the server, in milliseconds since 1970. It returns undefined if the server refuses TIME.
   *
   * @throws LockUnavailableError if there is no reply.
   */
  private async serverTime(): Promise<() => number | undefined> {
    const { clock, settings, opened } = this;
    const reply = await inTime(clock, settings.timeoutMs, opened.ioredis.time()).catch((error: unknown) => {
      if (isErrorReply(error)) return [];
      throw unavailableBecause(error, 'the time');
    });
    const readAt = clock.now();
    const [seconds, micros] = (reply as unknown[]).map(Number);
    if (seconds === undefined || micros === undefined) return () => undefined;
    return () => seconds * 1_000 + micros / 1_000 + clock.now() - readAt;
  }
}

/** Returns the test for keys that may be those of a module whose prefix ends with this one, such as `shop:lock_`. */
function likenessOf(prefix: string): (key: string) => boolean {
  if (prefix === '') return () => false;
  return (key) => {
    const [, before] = key.split('{', 2);
    const at = before?.indexOf(prefix) ?? -1;
    return at === 0 || (at > 1 && before[at - 1] === ':');
  };
}

/** A store keeps track of its connections only while somebody listens. */
function silentListener(): StoreListener {
  const ignore = (): void => undefined;
  return {
    instanceId: newInstanceId(''),
    onHandoff: ignore,
    onReleased: ignore,
    onSubscribed: ignore,
    onDegraded: ignore,
    onDisconnected: ignore,
    onReconnected: ignore,
    onUnreachable: ignore,
    onReachable: ignore,
  };
}

/** The token of `token()` is the server's time of the grant, in µs. */
function toInfo(resource: string, key: string, state: LockState, serverMs: number | undefined): LockInfo {
  const lock = toLockInfo({ resource, key }, state, { isOwn: () => false });
  if (serverMs === undefined || lock.fencingToken === undefined) return lock;
  return { ...lock, heldForMs: Math.max(0, serverMs - lock.fencingToken / 1_000) };
}
