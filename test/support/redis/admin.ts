import { Redis } from 'ioredis';
import type { RedisServer } from './types.ts';

/** Opens a connection of the test to a server, which may go and come back. Its requests wait for the server. */
export function adminOf({ url }: Pick<RedisServer, 'url'>): Redis {
  const retryStrategy = () => 20;
  const admin = new Redis(url, { maxRetriesPerRequest: null, retryStrategy, disconnectTimeout: 50 });
  return admin.on('error', () => undefined);
}
