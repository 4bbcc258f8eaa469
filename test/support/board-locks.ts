import type { LockService } from 'nestjs-redis-lock';
import type { BoardLock, BoardPing, BoardServer } from '../../lib/board/board-source.js';

/** The part of a Redis client that the stand-ins need. */
interface RawClient {
  scan(cursor: string, match: 'MATCH', pattern: string, count: 'COUNT', number: number): Promise<[string, string[]]>;
  del(key: string): Promise<number>;
  ping(): Promise<string>;
}

/**
 * Gives a lock service simple stand-ins for the methods that the board calls and that the library does not have. Real
 * methods are left alone. The locks have the given prefix and default keys.
 */
export function completeLocks(locks: LockService, redis: RawClient, prefix: string): void {
  const standIns = {
    async *list(): AsyncIterable<BoardLock> {
      for (const key of await keysOf(redis, `{${prefix}*`)) {
        const info = await locks.inspect(key.replace(`{${prefix}`, '').replace('}', ''));
        if (info !== null) yield info;
      }
    },
    async ping(): Promise<BoardPing> {
      await redis.ping();
      const server: BoardServer = { server: '127.0.0.1', isUp: true, latencyMs: 0.4, error: undefined };
      return { handoff: 'subscription', degraded: undefined, isUp: true, servers: [server] };
    },
    async forceRelease(resource: string, { ifToken }: { ifToken?: number } = {}): Promise<boolean> {
      const info = await locks.inspect(resource);
      if (info === null || (ifToken !== undefined && info.fencingToken !== ifToken)) return false;
      return (await redis.del(info.key)) === 1;
    },
  };
  for (const [name, method] of Object.entries(standIns)) {
    if (!(name in locks)) Object.defineProperty(locks, name, { value: method, configurable: true });
  }
}

async function keysOf(redis: RawClient, pattern: string): Promise<readonly string[]> {
  const keys = new Set<string>();
  let cursor = '0';
  do {
    const [next, found] = await redis.scan(cursor, 'MATCH', pattern, 'COUNT', 1_000);
    for (const key of found) if (!key.includes('|')) keys.add(key);
    cursor = next;
  } while (cursor !== '0');
  return [...keys];
}
