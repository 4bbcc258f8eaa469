import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Lock, LockError, type LockService } from 'nestjs-redis-lock';
import { RedisProxy } from '../../support/proxy.js';
import { randomFrom } from '../../support/random.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import { testRedisUrl } from '../../support/shared-redis.js';

const KEYS = 3;
const RUN_MS = 20_000;

/** Checks every section that runs under a lock. */
class Referee {
  readonly faults: string[] = [];
  entered = 0;
  private readonly inside = new Map<string, Lock>();
  private readonly lastToken = new Map<string, number>();

  enter(lock: Lock): void {
    this.entered += 1;
    const before = this.inside.get(lock.key);
    if (before !== undefined && before.expiresInMs > 0) this.faults.push(`two inside ${lock.key}`);
    if (lock.fencingToken <= (this.lastToken.get(lock.key) ?? 0)) this.faults.push(`token of ${lock.key} did not rise`);
    this.inside.set(lock.key, lock);
    this.lastToken.set(lock.key, lock.fencingToken);
  }

  leave(lock: Lock): void {
    if (this.inside.get(lock.key) === lock) this.inside.delete(lock.key);
  }
}

describe('four instances under random load and connection faults', () => {
  let running: RedisLocks;
  let proxies: RedisProxy[];

  beforeEach(async () => {
    running = new RedisLocks();
    proxies = await Promise.all([1, 2, 3].map(() => RedisProxy.start(testRedisUrl())));
  });

  afterEach(async () => {
    await running.close();
    await Promise.all(proxies.map((proxy) => proxy.close()));
  });

  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  it('keep exclusion, get rising tokens, and leave no lock', async () => {
    const seed = Number(process.env['FUZZ_SEED'] ?? Date.now() % 1e9);
    process.stderr.write(`FUZZ_SEED=${seed}\n`);
    const random = randomFrom(seed);
    const until = performance.now() + RUN_MS;
    const referee = new Referee();
    const urls = [testRedisUrl(), ...proxies.map(({ url }) => url)];
    const instances = urls.map((redis) => running.start({ redis, ttlMs: 400, requestTimeoutMs: 150, waitMs: 600 }));

    const section = async (lock: Lock): Promise<void> => {
      referee.enter(lock);
      await pause(random() * 15);
      if (random() < 0.02) await pause(600);
      if (lock.expiresInMs > 0 && random() < 0.1) await lock.extend(300 + random() * 400).catch(() => undefined);
      referee.leave(lock);
    };
    const worker = async (locks: LockService): Promise<void> => {
      while (performance.now() < until) {
        const abort = new AbortController();
        if (random() < 0.1) setTimeout(() => abort.abort(new Error('left')), random() * 50);
        const options = { signal: abort.signal, minHoldMs: random() < 0.1 ? 30 : 0 };
        try {
          await locks.using(`goods:${Math.floor(random() * KEYS)}`, options, section);
        } catch (error) {
          if (!(error instanceof LockError) && (error as Error).message !== 'left') referee.faults.push(String(error));
        }
        await pause(random() * 5);
      }
    };
    const trouble = async (proxy: RedisProxy): Promise<void> => {
      while (performance.now() < until) {
        await pause(random() * 400);
        const direction = random() < 0.5 ? 'requests' : 'replies';
        const kind = random();
        if (kind < 0.3) proxy.reset();
        else if (kind < 0.6) proxy.delay(direction, random() * 200);
        else proxy.hold(direction);
        await pause(random() * 300);
        proxy.delay('requests', 0);
        proxy.delay('replies', 0);
        proxy.resume('requests');
        proxy.resume('replies');
      }
    };
    await Promise.all([...instances.flatMap((locks) => [1, 2, 3].map(() => worker(locks))), ...proxies.map(trouble)]);

    expect(referee.faults).toEqual([]);
    expect(referee.entered).toBeGreaterThan(0);
    // The limits of the others end requests while the machine stands still.
    const direct = running.start({ redis: testRedisUrl() });
    for (let id = 0; id < KEYS; id += 1) {
      await eventually(`goods:${id} is free`, async () => (await direct.inspect(`goods:${id}`)) === null);
    }
  });
});
