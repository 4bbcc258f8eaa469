import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisNotFoundError, RedisServer } from '../../../../test/support/redis/index.js';
import type { Instance } from './instance.js';
import { findRedis } from './redis.js';

/** Runs `work` and shows what it is while it lasts. `work` may show a detail. */
export type Step = <T>(what: string, work: (detail: (text: string) => void) => Promise<T>) => Promise<T>;

/** The exit code of a command that a signal has ended before its work. */
export const INTERRUPTED = 130;
/** npm may pass on the SIGINT that the terminal has sent to this process already. */
const SAME_SIGNAL_MS = 1_000;

/**
 * Finds a Redis, runs `work`, stops the Redis and exits with the code that `work` returns. Prints the message of an
 * error without its stack.
 */
export async function runWithRedis(
  step: Step,
  work: (redis: RedisServer | RedisNotFoundError) => Promise<number>,
): Promise<never> {
  let exitCode = 1;
  try {
    const redis = await step('Starting Redis', findRedis);
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

/**
 * Waits until the instances are ready, runs `work`, and stops them. A signal to this process stops them at once, and
 * its name is returned.
 */
export async function withInstances<T>(
  step: Step,
  instances: readonly Instance[],
  work: () => Promise<T>,
): Promise<T | NodeJS.Signals> {
  const interruption = interrupted();
  let isInterrupted = false;
  void interruption.then(() => (isInterrupted = true));
  const done = async (): Promise<T | NodeJS.Signals> => {
    try {
      await step('Starting the instances', () => Promise.all(instances.map((instance) => instance.ready())));
    } catch (error) {
      // A Ctrl-C may end an instance before this process is notified of it.
      await Promise.race([interruption, sleep(SAME_SIGNAL_MS)]);
      if (!isInterrupted) throw error;
    }
    return isInterrupted ? interruption : work();
  };
  try {
    return await Promise.race([done(), interruption]);
  } finally {
    await Promise.all(instances.map((instance) => instance.stop()));
  }
}

/** Resolves on Ctrl-C, a closed terminal or a signal. A second Ctrl-C or SIGTERM ends this process at once. */
function interrupted(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let firstAt: number | undefined;
    const onSignal = (signal: NodeJS.Signals): void => {
      firstAt ??= performance.now();
      if (signal !== 'SIGHUP' && performance.now() > firstAt + SAME_SIGNAL_MS) process.exit(INTERRUPTED);
      resolve(signal);
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  });
}
