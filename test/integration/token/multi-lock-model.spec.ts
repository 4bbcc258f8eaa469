import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { AcquireReply, LockMode, LockStore } from '../../../lib/core/store/lock-store.js';
import { memory, token } from 'nestjs-redis-lock';
import { SystemClock } from '../../../lib/core/time/clock.js';
import { asPort } from '../../support/client-port.js';
import { randomFrom } from '../../support/random.js';

const SEED = Number(process.env['TWINS_SEED'] ?? Math.trunc(Math.random() * 2 ** 31));
const RUNS = 60;
const STEPS = 25;
const MODES: readonly LockMode[] = ['exclusive', 'exclusive', 'shared', 'shared', 2, 3];
const HAND_OFF = { handoffMs: 3_000, tokens: 1 };

const clock = new SystemClock();
let redis: Redis;
let twins: readonly LockStore[];

beforeAll(async () => {
  redis = new Redis(process.env['TEST_REDIS_URL'] as string);
  await redis.ping();
  const unused = (): never => {
    throw new Error('nobody listens here');
  };
  const context = {
    clock,
    requestTimeoutMs: 5_000,
    prefix: 'lock_',
    redis: () => asPort(redis),
    open: unused,
  };
  twins = [token()(context), memory()(context)];
});
afterAll(async () => {
  for (const store of twins) await store.close();
  await redis.quit();
});

/** What two stores have to agree on: neither tokens nor the exact millisecond. */
function essence(reply: AcquireReply): unknown {
  if (reply.status === 'granted') return { status: 'granted', tokens: reply.tokens };
  if (reply.status !== 'held') return reply;
  const { remainingMs, holder, ...rest } = reply;
  const named = holder && { ...holder, since: holder.since === undefined ? undefined : Math.sign(holder.since) };
  return {
    ...rest,
    holder: named,
    remaining: remainingMs === undefined ? undefined : Math.round(remainingMs / 20_000),
  };
}

/** Runs one step on both stores, a release or a request for some keys. Returns both replies. */
async function step(random: () => number, keys: readonly string[], owners: ReadonlyMap<string, LockMode>) {
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)];
  const owner = pick([...owners.keys()]);
  const mode = owners.get(owner) as LockMode;
  if (random() < 0.35) {
    const request = { keys: [pick(keys)], owner, mode, closedForMs: 0, ...HAND_OFF };
    return Promise.all(twins.map((store) => store.release(request)));
  }
  const chosen = keys.filter(() => random() < 0.6);
  const leaseMs = pick([60_000, 100_000, 140_000]);
  const about = { keys: chosen.length > 0 ? chosen : keys, owner, mode, leaseMs, ...HAND_OFF };
  const request = { ...about, queue: false, expiresAt: clock.now() + 5_000 };
  return (await Promise.all(twins.map((store) => store.acquire(request)))).map(essence);
}

describe('requests for one key and for several, in Redis and in memory', () => {
  it(`get the same replies (TWINS_SEED=${SEED})`, async () => {
    const random = randomFrom(SEED);
    const seen: unknown[][] = [[], []];
    for (let run = 0; run < RUNS; run += 1) {
      const keys = Array.from({ length: 3 }, (_, i) => `{twins:${process.pid}:${run}}:${i}`);
      const owners = new Map(
        Array.from({ length: 5 }, (_, i) => [`twin:${run * 10 + i}`, MODES[Math.floor(random() * MODES.length)]]),
      );
      for (let count = 0; count < STEPS; count += 1) {
        const answers = await step(random, keys, owners);
        answers.forEach((answer, twin) => seen[twin].push({ run, count, answer }));
      }
      await redis.del(...keys, ...keys.map((key) => `${key}|queue`));
    }
    const [inRedis, inMemory] = seen;
    expect(inRedis).toEqual(inMemory);
    // All kinds of replies were compared.
    for (const status of ['granted', 'held', 'permits-mismatch']) {
      expect(inRedis.filter((one) => JSON.stringify(one).includes(`"${status}"`)).length).toBeGreaterThan(0);
    }
  });
});
