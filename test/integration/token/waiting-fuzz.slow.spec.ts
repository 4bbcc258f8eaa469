import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { FuzzTask } from '../../support/fuzz-worker.js';
import { forkSource } from '../../support/lock-process.js';
import { machineMs, randomFrom } from '../../support/random.js';
import { RedisLocks } from '../../support/redis-locks.js';
import { Referee, type Report } from '../../support/referee.js';
import { testRedisUrl } from '../../support/shared-redis.js';

const RUN_MS = 18_000;
const LEASE_MS = 1_000;
const RESOURCES = ['goods:300'];

describe('processes that join, leave, are killed or stopped at random', () => {
  let running: RedisLocks;
  let admin: Redis;
  let children: Set<ChildProcess>;

  beforeEach(() => {
    running = new RedisLocks();
    admin = new Redis(testRedisUrl());
    children = new Set();
  });

  afterEach(async () => {
    for (const child of children) child.kill('SIGKILL');
    await running.close();
    await admin.quit();
  });

  it('keep exclusion, get rising tokens, and leave nothing behind', async () => {
    const seed = Number(process.env['FUZZ_SEED'] ?? Date.now() % 1e9);
    process.stderr.write(`FUZZ_SEED=${seed}\n`);
    const random = randomFrom(seed);
    const referee = new Referee();
    const counts = { killed: 0, stopped: 0, left: 0 };
    // Each kind of trouble happens once, whatever the seed.
    const firstKinds = [0, 0.5, 0.9];

    const join = (): ChildProcess => {
      const { prefix } = running;
      const options = { redis: testRedisUrl(), prefix, ttlMs: LEASE_MS, waitMs: 8_000, shutdownGraceMs: 500 };
      const task: FuzzTask = { seed: Math.floor(random() * 2 ** 31), resources: RESOURCES, callers: 3, options };
      const child = forkSource('fuzz-worker.ts', task);
      child.on('message', (report: Report) => referee.hear(report));
      child.once('exit', () => children.delete(child));
      children.add(child);
      return child;
    };
    const ended = (child: ChildProcess) => new Promise((resolve) => void child.once('exit', resolve));
    const trouble = async (child: ChildProcess): Promise<void> => {
      const kind = firstKinds.shift() ?? random();
      if (kind < 0.4) {
        counts.killed += 1;
        child.kill('SIGKILL');
        await ended(child);
        await sleep(random() * 2 * LEASE_MS);
        join();
      } else if (kind < 0.85) {
        counts.stopped += 1;
        child.kill('SIGSTOP');
        await sleep(random() * 2.5 * LEASE_MS);
        child.kill('SIGCONT');
      } else {
        counts.left += 1;
        child.send('leave');
        await ended(child);
        join();
      }
    };

    for (let i = 0; i < 5; i += 1) join();
    const until = machineMs() + RUN_MS;
    // Two processes at a time have a fault: the other three continue.
    const troubled = new Set<ChildProcess>();
    const troubles = [1, 2].map(async () => {
      // On a slow machine, processes may need longer to start.
      while (machineMs() < until || firstKinds.length > 0 || referee.entered === 0) {
        await sleep(200 + random() * 800);
        const free = [...children].filter((child) => !troubled.has(child));
        const child = free[Math.floor(random() * free.length)];
        troubled.add(child);
        await trouble(child);
        troubled.delete(child);
      }
    });
    await Promise.all(troubles);
    const last = [...children].map(async (child) => {
      child.send('leave');
      await ended(child);
    });
    await Promise.all(last);

    const faults = referee.judge();
    process.stderr.write(`${referee.entered} holds, ${JSON.stringify(counts)}\n`);
    expect(faults).toEqual([]);
    expect(referee.entered).toBeGreaterThan(0);
    expect(Math.min(...Object.values(counts))).toBeGreaterThan(0);
    // The next request clears the queue entries of dead instances.
    const locks = running.start({ redis: testRedisUrl() });
    for (const resource of RESOURCES) await locks.using(resource, { waitMs: 120_000 }, () => undefined);
    const keys = await admin.keys(`*${running.prefix}*`);
    expect(keys.filter((key) => !key.endsWith('|fence'))).toEqual([]);
  });
});
