import { Redis, type RedisOptions } from 'ioredis';

/** A client of the user's own that goes one way, and whose copies, which listen for hand-offs, go another. */
export function twoWays(asking: string, listening: string): Redis {
  const client = new Redis(asking, { maxRetriesPerRequest: null });
  client.on('error', () => undefined);
  client.duplicate = (override?: Partial<RedisOptions>) => new Redis(listening, { ...override });
  return client;
}
