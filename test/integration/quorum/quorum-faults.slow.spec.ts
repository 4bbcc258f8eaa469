import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { type Lock, LockError, type LockService } from 'nestjs-redis-lock';
import { Masters } from '../../support/masters.js';
import type { RedisProxy } from '../../support/proxy.js';
import { randomFrom } from '../../support/random.js';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';

const INSTANCES = 4;
const CALLERS = 2;
const NODE_TIMEOUT_MS = 100;
const RUN_MS = Number(process.env['QUORUM_FAULTS_MS'] ?? 15_000);

const here = forTests(new Masters(3));

/** Whether its holder may still rely on a lock. */
const isReliable = ({ signal, expiresInMs }: Lock): boolean => !signal.aborted && expiresInMs > 0;

/** All that hold the lock, and what was seen of them. */
class Referee {
  grants = 0;
  readonly violations: string[] = [];
  private readonly inside = new Set<Lock>();
  private last = 0;

  enter(lock: Lock): void {
    this.grants += 1;
    if ([...this.inside].some(isReliable)) this.violations.push(`${lock.fencingToken} beside another`);
    if (lock.fencingToken <= this.last) this.violations.push(`${lock.fencingToken} after ${this.last}`);
    this.last = lock.fencingToken;
    this.inside.add(lock);
  }

  leave(lock: Lock): void {
    this.inside.delete(lock);
  }
}

describe('a quorum under faults of the network', () => {
  it.each([
    [1, 500],
    [2, 500],
    [3, 60_000],
  ])(
    'lets one caller in at a time, with rising tokens, and leaves nothing (seed %i, ttlMs %i)',
    async (seed, ttlMs) => {
      const random = randomFrom(seed);
      const ways: RedisProxy[] = [];
      const instances: LockService[] = [];
      for (let i = 0; i < INSTANCES; i += 1) {
        const own = await Promise.all(here.urls.map((_, master) => here.way(master)));
        ways.push(...own);
        const options = { ttlMs, waitMs: 5_000, passing: { maxLocalPasses: 3 } };
        instances.push(
          await here.instance(options, { nodes: own.map(({ url }) => url), nodeTimeoutMs: NODE_TIMEOUT_MS }),
        );
      }
      const until = performance.now() + RUN_MS;
      const isOver = (): boolean => performance.now() > until;
      const referee = new Referee();

      const visit = async (lock: Lock): Promise<void> => {
        referee.enter(lock);
        await sleep(random() < 0.1 ? random() * 1_200 : random() * 5);
        referee.leave(lock);
      };
      const call = async (locks: LockService): Promise<void> => {
        while (!isOver()) {
          await locks.using('goods:300', visit).catch((error: unknown) => {
            if (!(error instanceof LockError)) throw error;
          });
          await sleep(random() * 3);
        }
      };
      const fault = async (way: RedisProxy): Promise<void> => {
        const direction = random() < 0.5 ? 'requests' : 'replies';
        const kind = Math.floor(random() * 5);
        if (kind === 0) way.hold(direction);
        else if (kind === 1) way.delay(direction, random() * 60);
        else if (kind === 2) way.drop(direction);
        else if (kind === 3) way.reset();
        else await here.admins[Math.floor(random() * 3)].script('FLUSH');
        await sleep(random() * 4 * NODE_TIMEOUT_MS);
        // What was dropped leaves a gap in the stream.
        if (kind === 2) way.reset();
        way.delay(direction, 0);
        way.resume(direction);
      };
      const disturb = async (): Promise<void> => {
        while (!isOver()) {
          await fault(ways[Math.floor(random() * ways.length)]);
          await sleep(random() * 50);
        }
      };
      const calls = instances.flatMap((locks) => Array.from({ length: CALLERS }, () => call(locks)));
      await Promise.all([...calls, disturb(), disturb(), disturb()]);
      expect(referee.violations).toEqual([]);
      expect(referee.grants).toBeGreaterThan(20);
      await eventually('no master keeps the lock', async () => (await here.locked()) === 0, 5_000);
    },
  );
});
