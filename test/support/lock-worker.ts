// The main of a forked process: one module instance that runs the calls of its parent and ends with it.
import { existsSync } from 'node:fs';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import type { Lock } from '../../lib/engine/lock.js';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { fromNodeRedis } from '../../lib/node-redis/index.js';
import type { LockOptions } from '../../lib/options/lock.options.js';
import { quorum } from '../../lib/stores/quorum/quorum.store.js';
import type { InstanceOptions } from './redis-locks.js';
import { silent } from './silent-logger.js';

/** The options of the instance. */
export interface LockProcessOptions extends InstanceOptions {
  /** With these it locks on a quorum of them, and `redis` keeps the data. */
  readonly nodes?: readonly string[];
  /** Whether it locks by a node-redis client. `redis` is then a URL. Default: by ioredis. */
  readonly byNodeRedis?: boolean;
}

const { nodes, byNodeRedis, requestTimeoutMs, ...given } = JSON.parse(process.argv[2]) as LockProcessOptions & {
  redis: string;
};
const client = byNodeRedis ? createClient({ url: given.redis }) : undefined;
// A client that is closed or not connected yet rejects requests.
client?.connect().catch(() => undefined);
const redis = client === undefined ? given.redis : fromNodeRedis(client);
// A busy machine is not an outage.
const patient = { unavailableAfterMs: Infinity, ...given, redis };
const store = nodes === undefined ? undefined : quorum(nodes);
const runtime = LockRuntime.start({ ...patient, store }, undefined, { requestTimeoutMs, logger: silent });
runtime.connect();
const data = new Redis(given.redis, { lazyConnect: true });
const held = new Map<string, Lock>();
const lockOf = (resource: string): Lock => held.get(resource) as Lock;

/** What the parent may call. */
const calls = {
  async acquire(resource: string, options?: LockOptions): Promise<number> {
    const lock = await runtime.service.acquire(resource, options);
    held.set(resource, lock);
    return lock.fencingToken;
  },
  /**
   * Takes the lock and blocks the event loop from the first line until there is a file. Then asserts that the lock is
   * held, or just ends.
   */
  async block(resource: string, untilFile: string, asserts: boolean): Promise<void> {
    await runtime.service.using(resource, async (lock) => {
      while (!existsSync(untilFile));
      if (!asserts) return;
      // The event loop reads the reply of the renewal after its timers.
      for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      lock.assertHeld();
    });
  },
  /** Waits until the acquired lock is lost. Returns the error's message. */
  async untilLost(resource: string): Promise<string> {
    const { signal } = lockOf(resource);
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return (signal.reason as Error).message;
  },
  release: (resource: string) => lockOf(resource).release(),
  expiresInMs: (resource: string) => lockOf(resource).expiresInMs,
  /** Takes the lock again and again, and counts by reading and writing. Keeps all tokens in a list. */
  async count(resource: string, prefix: string, times: number): Promise<void> {
    for (let i = 0; i < times; i += 1) {
      await runtime.service.using(resource, async ({ fencingToken }) => {
        const count = Number(await data.get(`${prefix}count`));
        await data.rpush(`${prefix}tokens`, fencingToken);
        await data.set(`${prefix}count`, count + 1);
      });
    }
  },
  close: () => runtime.close(),
};

/** @internal */
export type WorkerCalls = typeof calls;

process.on('message', ({ id, name, args }: { id: number; name: keyof WorkerCalls; args: never[] }) => {
  const answer = async (): Promise<unknown> => (calls[name] as (...given: never[]) => unknown)(...args);
  answer().then(
    (value) => process.send?.({ id, value }),
    (error: unknown) => process.send?.({ id, error: String(error) }),
  );
});
process.on('disconnect', () => process.exit());
process.send?.({ id: 0 });
