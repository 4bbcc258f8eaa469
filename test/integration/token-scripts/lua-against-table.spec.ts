import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { WallClock } from '../../support/server-clock/wall-clock.js';
import { CHANNELS, counts, randomSequence } from './random-run.js';

needWallClocks();

let clock: WallClock;
let server: RedisServer;
let client: Redis;
let subscriber: Redis;

beforeAll(async () => {
  clock = await WallClock.create();
  clock.stopAt(1_795_000_000_000_000);
  server = await startRedis({ local: true, variables: clock.variables });
  [client, subscriber] = [new Redis(server.port), new Redis(server.port)];
  // The clock is set back: then an expired key would be gone or not by chance.
  await client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0');
  await subscriber.subscribe(...CHANNELS);
});
afterAll(async () => {
  client.disconnect();
  subscriber.disconnect();
  await server.stop();
});

const SEQUENCES = Number(process.env['TOKEN_SEQUENCES'] ?? 300);
const FIRST_SEED = Number(process.env['TOKEN_SEED'] ?? 1);

it('the scripts and the table do the same in random sequences, and the invariants hold', async () => {
  const deps = { client, subscriber, setClock: (us: number) => clock.stopAt(us) };
  for (let seed = FIRST_SEED; seed < FIRST_SEED + SEQUENCES; seed += 1) await randomSequence(seed, deps);
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(20);
}, 180_000);
