import { Injectable } from '@nestjs/common';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { Locked } from 'nestjs-redis-lock';
import { collectLockMetrics } from 'nestjs-redis-lock/prometheus';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { LockProcess } from '../support/lock-process.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { closeApps, rawRedis, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';
import { onStoppedServer } from './support/stopped-app.js';

/** Once a year. The test fires the jobs. */
const NEVER = '0 0 0 1 1 *';

const clock = onStoppedServer();

@Injectable()
class Jobs {
  constructor(private readonly room: Room) {}

  @Cron(NEVER, { name: 'report' })
  @Locked('report', { onceMs: 30_000, onBusy: 'skip' })
  async report(): Promise<void> {
    await this.room.stay();
  }

  @Cron(NEVER, { name: 'quick' })
  @Locked('quick', { onceMs: 30_000 })
  async quick(): Promise<void> {
    this.room.visits += 1;
  }
}

let apps: readonly TestApp[];

beforeEach(async () => {
  const prefix = uniquePrefix();
  const start = (): Promise<TestApp> => startApp({ prefix, imports: [ScheduleModule.forRoot()], providers: [Jobs] });
  apps = [await start(), await start(), await start()];
});
afterEach(closeApps);

const fire = (app: TestApp, job: string): void => void app.nest.get(SchedulerRegistry).getCronJob(job).fireOnTick();
const runs = (): number => apps.reduce((sum, { room }) => sum + room.visits, 0);

/** Returns whether a job has ended that many calls in all, with a lock or without. */
const ended = (job: string, count: number) => (): boolean =>
  apps[0].log.count(new RegExp(`^(released|refused) ${job}`)) >= count;

describe('a cron job with onceMs on three instances', () => {
  it('runs once at each tick, whatever their clocks say', async () => {
    for (const tick of [1, 2]) {
      for (const [i, app] of apps.entries()) {
        fire(app, 'quick');
        await clock().advanceUntil('the call ends', ended('quick', (tick - 1) * 3 + i + 1));
        await clock().advance(9_000); // clocks differ by up to 18 s
      }
      expect(runs()).toBe(tick);
      await clock().advance(60_000 - 27_000);
    }
    expect(apps.flatMap(({ logged }) => logged)).toEqual([]);
  });

  it('runs at the next tick after the lease of an instance that was killed in its run', async () => {
    const { host, port } = rawRedis().options;
    const killed = await LockProcess.start({ redis: `redis://${host}:${port}`, prefix: apps[0].prefix });
    await killed.call('acquire', 'report');
    await killed.kill();
    fire(apps[0], 'report');
    await clock().advanceUntil('the call is refused', ended('report', 1));
    await clock().advance(55_000);
    fire(apps[1], 'report');
    (await clock().until(apps[1].room.next())).leave();
    await clock().advanceUntil('the run ends', ended('report', 2));
    expect(runs()).toBe(1);
  });

  it('counts the calls that found it done', async () => {
    const register = new Registry();
    const stop = collectLockMetrics({ register });
    for (const app of apps) fire(app, 'quick');
    await clock().advanceUntil('all calls end', ended('quick', 3));
    const counted = (await register.metrics()).split('\n').filter((line) => line.includes('duration_seconds_count'));
    stop();
    expect(counted.filter((line) => line.includes('outcome="done"'))).toEqual([expect.stringMatching(/ 2$/)]);
    expect(counted.filter((line) => line.includes('outcome="granted"'))).toEqual([expect.stringMatching(/ 1$/)]);
  });
});

it('a store that keeps no mark is refused at the start', async () => {
  const starting = startApp({ locks: { redis: testRedisUrl(), store: timestamp() }, providers: [Jobs] });
  await expect(starting).rejects.toThrow(
    '@Locked of Jobs.report: onceMs: timestamp() cannot keep work that is done apart from a lock that is held, ' +
      'as token() and memory() can; leave the option out, or name a module instance',
  );
});
