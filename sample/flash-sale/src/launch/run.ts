import type { RedisNotFoundError, RedisServer } from '../../../../test/support/redis/index.js';
import type { Instance } from './instance.js';
import { findRedis } from './redis.js';

const PARENT_CHECK_MS = 500;

/**
 * Finds a Redis by `find`, runs `work`, stops the Redis and exits with the code that `work` returns. Prints the message
 * of an error without its stack.
 */
export async function runWithRedis(
  work: (redis: RedisServer | RedisNotFoundError) => Promise<number>,
  find: () => Promise<RedisServer | RedisNotFoundError> = () => findRedis(),
): Promise<never> {
  let exitCode = 1;
  try {
    const redis = await find();
    try {
      exitCode = await work(redis);
    } finally {
      if (!(redis instanceof Error)) await redis.stop();
    }
  } catch (error) {
    console.error(`\n${error instanceof Error ? error.message : String(error)}`);
  }
  process.exit(exitCode);
}

/** Waits for the instances, runs `work` and stops them. A signal to this process stops them at once. */
export async function withInstances<T>(
  starting: Promise<readonly Instance[]>,
  work: (instances: readonly Instance[]) => Promise<T>,
): Promise<T | NodeJS.Signals> {
  const interruption = interrupted();
  const instances = await Promise.race([starting, interruption]);
  // Instances that are not ready yet end with this process.
  if (typeof instances === 'string') return instances;
  try {
    return await Promise.race([work(instances), interruption]);
  } finally {
    await Promise.all(instances.map((instance) => instance.stop()));
  }
}

/**
 * Resolves on Ctrl-C, a closed terminal or a signal. npm passes no signal on, so the end of its shell counts, too. A
 * second signal ends this process at once.
 */
function interrupted(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, resolve);
    const parent = process.ppid;
    setInterval(() => process.ppid !== parent && resolve('SIGHUP'), PARENT_CHECK_MS).unref();
  });
}
