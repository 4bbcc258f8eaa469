import { Redis, type RedisOptions } from 'ioredis';

/** Returns a client that connects to one URL, and whose duplicates, which receive handoffs, connect to another. */
export function twoWays(asking: string, listening: string): Redis {
  const client = new Redis(asking, { maxRetriesPerRequest: null });
  client.on('error', () => undefined);
  client.duplicate = (override?: Partial<RedisOptions>) => new Redis(listening, { ...override });
  return client;
}
