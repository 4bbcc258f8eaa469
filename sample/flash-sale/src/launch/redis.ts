import { RedisNotFoundError, type RedisServer, startRedis } from '../../../../test/support/redis/index.js';

/**
 * Returns a Redis for this run, or the reasons why there is none. The Redis in REDIS_URL must be available.
 * `onProgress` gets a line about what was tried and what is used.
 */
export async function findRedis(onProgress: (line: string) => void): Promise<RedisServer | RedisNotFoundError> {
  try {
    return await startRedis({ onProgress });
  } catch (error) {
    const isNamed = Boolean(process.env.REDIS_URL || process.env.REDIS_SERVER_BIN);
    if (error instanceof RedisNotFoundError && !isNamed) return error;
    throw error;
  }
}
