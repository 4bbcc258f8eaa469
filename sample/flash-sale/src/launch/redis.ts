import { RedisNotFoundError, type RedisServer, startRedis } from '../../../../test/support/redis/index.js';

/**
 * Returns a Redis for this run, or the reasons why there is none. The Redis in REDIS_URL must be available. `onTry`
 * gets the name of each place where it looks: to download a server takes a while.
 */
export async function findRedis(onTry: (place: string) => void): Promise<RedisServer | RedisNotFoundError> {
  try {
    return await startRedis({ onTry });
  } catch (error) {
    const isNamed = Boolean(process.env.REDIS_URL || process.env.REDIS_SERVER_BIN);
    if (error instanceof RedisNotFoundError && !isNamed) return error;
    throw error;
  }
}
