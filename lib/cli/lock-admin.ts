// All that the command line requests of a store.
import { LockUnavailableError } from '../common/errors.js';
import { createKeySelectorFactory } from '../keys/key-selector.js';
import { createKeyFactory, type KeyOptions } from '../keys/resource-key.js';
import { handoffLease } from '../engine/lease.js';
import { newInstanceId } from '../contract/instance-id.js';
import type { LockState } from '../contract/lock-state.js';
import { SystemClock, withTimeout } from '../clock/clock.js';
import { type LockInfo, toLockInfo } from '../lock-info.js';
import { isCluster } from '../redis/client-port.js';
import { loadIoredis } from '../redis/load-ioredis.js';
import { type OpenedRedis, openRedis } from '../redis/open-redis.js';
import { neverConnected, reasonOf, toError } from '../redis/redis-errors.js';
import type { StoreListener } from '../contract/store.js';
import { TokenStore } from '../stores/token/token.store.js';
import { CliError, EXIT } from './cli-error.js';
import type { RedisTarget } from './redis-target.js';

/** Where the locks are, and how their keys are made. */
export type AdminSettings = KeyOptions & { readonly target: RedisTarget };

/** How long the connection, and then each request, may take, in milliseconds. */
const TIMEOUT_MS = 5_000;

/** About how many keys a server looks at in one step of a scan. */
const SCAN_COUNT = 1_000;

/** The lease that the next holder of a released lock gets, as from a module with defaults. */
const HANDOFF_MS = handoffLease(30_000);

const clock = new SystemClock();

/** Lists, inspects and releases the locks of one prefix. Acquires none. */
export type LockAdmin = Awaited<ReturnType<typeof openAdmin>>;

/** What to do if ioredis is missing. */
const INSTALL = 'Install it together with nestjs-redis-lock: npm install ioredis';

/**
 * Connects to Redis.
 *
 * @throws CliError if Redis cannot be used. LockConfigError if the prefix cannot form a safe key, or if ioredis is not
 * installed.
 */
export async function openAdmin(settings: AdminSettings) {
  loadIoredis(INSTALL);
  // An invalid prefix is found before the connection.
  const keyOf = createKeyFactory(settings);
  const selectorOf = createKeySelectorFactory(settings);
  const opened = await connect(settings.target);
  const redis = () => opened.client;
  const { prefix } = settings;
  const store = new TokenStore({ clock, requestTimeoutMs: TIMEOUT_MS, prefix, redis, open: redis });
  store.listen(silentListener());
  return {
    /** Returns the key of a resource. Throws `LockKeyError` if the resource cannot form a safe key. */
    keyOf,

    /**
     * Yields the locks that are held or waited for.
     *
     * @param match a glob over resources. Default: all.
     * @throws LockConfigError if the glob is invalid. LockUnavailableError if the list would be incomplete.
     */
    async *list(match?: string): AsyncGenerator<LockInfo> {
      const { pattern, resourceOf } = selectorOf(match);
      const selects = (key: string): boolean => resourceOf(key) !== undefined;
      for await (const { key, state } of store.list({ pattern, selects, count: SCAN_COUNT })) {
        yield toInfo(resourceOf(key) as string, key, state);
      }
    },

    /**
     * Returns the lock. Null if nobody holds it and nobody waits for it.
     *
     * @throws LockKeyError if the resource cannot form a safe key. LockUnavailableError if Redis did not reply.
     */
    async inspect(resource: string): Promise<LockInfo | null> {
      const key = keyOf(resource);
      const state = await withTimeout(clock, TIMEOUT_MS, store.inspect(key), () => {
        throw new LockUnavailableError(`Redis did not reply within ${TIMEOUT_MS} ms.`);
      });
      return state && toInfo(resource, key, state);
    },

    /**
     * Ends all holds of the lock, or the hold with this token. Returns false if there was none.
     *
     * @throws LockUnavailableError if Redis did not reply. The lock may still have been released.
     */
    release(resource: string, ifToken: number | undefined): Promise<boolean> {
      return store.forceRelease({ key: keyOf(resource), ifToken, handoffMs: HANDOFF_MS });
    },

    /** Closes the connection. */
    async close(): Promise<void> {
      await store.close();
      await opened.close();
    },
  };
}

function toInfo(resource: string, key: string, state: LockState): LockInfo {
  return toLockInfo({ resource, key }, state, { isOwn: () => false, now: clock.now() });
}

/** @throws CliError if Redis cannot be used. */
async function connect({ redis, asCluster, shown }: RedisTarget): Promise<OpenedRedis> {
  const opened = openRedis(redis, clock);
  try {
    await withTimeout(clock, TIMEOUT_MS, untilReady(opened), () => {
      throw new Error(`it was not ready within ${TIMEOUT_MS} ms`);
    });
    // One node of a cluster has only a part of the locks.
    if (asCluster === undefined || !(await isNodeOfCluster(opened))) return opened;
  } catch (error) {
    await opened.close();
    const { client } = opened;
    const reason = neverConnected(toError(error), !isCluster(client) && Boolean(client.target.tls));
    throw new CliError(EXIT.unavailable, `Redis cannot be used at ${shown}: ${reasonOf(reason)}`);
  }
  await opened.close();
  return connect({ redis: asCluster, asCluster: undefined, shown });
}

/** Rejects with the first error, because somebody is waiting. The client would try again. */
function untilReady(opened: OpenedRedis): Promise<void> {
  const { client } = opened;
  return new Promise((resolve, reject) => {
    const close = (): void => reject(new Error('the connection was closed'));
    if (isCluster(client)) client.watch({ refresh: resolve, error: reject });
    else client.watch({ ready: resolve, error: reject, close });
    opened.connect();
  });
}

async function isNodeOfCluster({ client }: OpenedRedis): Promise<boolean> {
  if (isCluster(client)) return false;
  // A server may refuse INFO. Then the first request shows what is wrong.
  const info = client.send('info', [], ['cluster']).catch(() => '');
  return /^cluster_enabled:1\r?$/m.test(String(await withTimeout<unknown>(clock, TIMEOUT_MS, info, () => '')));
}

/** A store keeps track of its connections only while somebody listens. */
function silentListener(): StoreListener {
  const ignore = (): void => undefined;
  return {
    instanceId: newInstanceId(''),
    onWake: ignore,
    onReleased: ignore,
    onSubscribed: ignore,
    onDown: ignore,
    onUp: ignore,
    onReconnected: ignore,
    onExtendFailed: ignore,
    onDegraded: ignore,
    onRecovered: ignore,
  };
}
