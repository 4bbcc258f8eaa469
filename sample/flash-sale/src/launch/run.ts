import type { RedisNotFoundError, RedisServer } from '../../../../test/support/redis/index.js';
import type { Instance } from './instance.js';
import { findRedis } from './redis.js';

const PARENT_CHECK_MS = 500;

/**
 * Finds a Redis, does the work, and ends the Redis and this process; `work` answers the exit code. What goes wrong is
 * told by its message, without a stack.
 */
export async function runWithRedis(work: (redis: RedisServer | RedisNotFoundError) => Promise<number>): Promise<never> {
  let exitCode = 1;
  try {
    const redis = await findRedis();
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

/** Waits for the instances, does the work, and stops them; a signal to this process ends all of it before its time. */
export async function withInstances<T>(
  starting: Promise<readonly Instance[]>,
  work: (instances: readonly Instance[]) => Promise<T>,
): Promise<T | NodeJS.Signals> {
  const interruption = interrupted();
  const instances = await Promise.race([starting, interruption]);
  // Those that are not ready yet are tethered to this process: they end with it.
  if (typeof instances === 'string') return instances;
  try {
    return await Promise.race([work(instances), interruption]);
  } finally {
    await Promise.all(instances.map((instance) => instance.stop()));
  }
}

/**
 * Ctrl-C, a closed terminal, a kill; or the end of the shell that npm runs this in, which passes on no signal. A second
 * signal ends this process at once.
 */
function interrupted(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, resolve);
    const parent = process.ppid;
    setInterval(() => process.ppid !== parent && resolve('SIGHUP'), PARENT_CHECK_MS).unref();
  });
}
