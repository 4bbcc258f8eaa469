import { describe, expect, it } from '@jest/globals';
import { SystemClock } from '../../../lib/core/time/clock.js';
import type { RedisClient } from '../../../lib/redis/redis-client.js';
import { RedisConnection } from '../../../lib/redis/redis-connection.js';
import { RedisScript } from '../../../lib/redis/redis-script.js';

/** Returns a connection, and the calls of its socket in order. */
function setUp() {
  const steps: string[] = [];
  const record = (step: string) => () => void steps.push(step);
  const stream = { cork: record('cork'), uncork: record('uncork') };
  const client = { status: 'ready', stream, eval: async () => steps.push('renewal') };
  const connection = new RedisConnection(client as unknown as RedisClient, new SystemClock(), 1_000);
  return { connection, steps };
}

describe('a corked connection', () => {
  it('sends after the promise jobs that are queued by then, or after those of the tick', async () => {
    const { connection, steps } = setUp();
    connection.corkUntil('microtask');
    connection.corkUntil('tick');
    await Promise.resolve();
    expect(steps).toEqual(['cork', 'uncork']);
    connection.corkUntil('tick');
    for (let jobs = 0; jobs < 100; jobs++) await Promise.resolve();
    expect(steps).toEqual(['cork', 'uncork', 'cork']);
    await new Promise((resolve) => setImmediate(resolve));
    expect(steps).toEqual(['cork', 'uncork', 'cork', 'uncork']);
  });

  it('sends before a renewal, whose lock may be used by work that blocks the event loop', async () => {
    const { connection, steps } = setUp();
    connection.corkUntil('tick');
    const renewed = new RedisScript({ lua: 'return 1' }, String).runAll(connection, [{ keys: [], args: [] }]);
    expect(steps).toEqual(['cork', 'uncork', 'renewal']);
    await renewed;
  });
});
