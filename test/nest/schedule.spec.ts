import { Injectable, type Type } from '@nestjs/common';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';
import { uniquePrefix } from '../support/shared-redis.js';
import { closeApps, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';

/** Once a year. The test fires the job. */
const NEVER = '0 0 0 1 1 *';

@Injectable()
class ReportJobs {
  constructor(private readonly room: Room) {}

  @Cron(NEVER, { name: 'above' })
  @Locked('report', { waitMs: 0, onBusy: 'skip' })
  async above(): Promise<void> {
    await this.room.stay('above');
  }

  @Locked('report', { waitMs: 0, onBusy: 'skip' })
  @Cron(NEVER, { name: 'below' })
  async below(): Promise<void> {
    await this.room.stay('below');
  }
}

afterEach(closeApps);

describe('a scheduled job', () => {
  const instance = (prefix: string, jobs: Type = ReportJobs): Promise<TestApp> =>
    startApp({ prefix, imports: [ScheduleModule.forRoot()], providers: [jobs] });
  const fire = (app: TestApp, job: string): void => void app.nest.get(SchedulerRegistry).getCronJob(job).fireOnTick();

  it.each(['above', 'below'])('runs on one of two instances (@Cron %s @Locked)', async (job) => {
    const prefix = uniquePrefix();
    const [one, other] = [await instance(prefix), await instance(prefix)];
    fire(one, job);
    const visit = await one.room.next();
    expect(await one.isLocked('report')).toBe(true);
    fire(other, job);
    await other.log.until('refused report');
    expect(other.room.visits).toBe(0);
    visit.leave();
    await one.log.until('released report');
    fire(other, job);
    (await other.room.next()).leave();
    await one.log.until('released report', 2);
  });
});

describe('a job of 1 ms on three instances whose clocks differ', () => {
  /** Longer than a test may take. */
  const MIN_HOLD_MS = 600_000;

  @Injectable()
  class NightlyJob {
    readonly tokens: number[] = [];

    @Locked('nightly', { waitMs: 0, onBusy: 'skip', minHoldMs: MIN_HOLD_MS, maxHoldMs: MIN_HOLD_MS })
    @Cron(NEVER, { name: 'nightly' })
    async run(@CurrentLock() lock?: Lock): Promise<void> {
      await this.work(lock);
    }

    @Locked('hasty', { waitMs: 0, onBusy: 'skip' })
    @Cron(NEVER, { name: 'hasty' })
    async hasty(@CurrentLock() lock?: Lock): Promise<void> {
      await this.work(lock);
    }

    private async work(lock?: Lock): Promise<void> {
      this.tokens.push(lock?.fencingToken ?? Number.NaN);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Fires the job on each instance after the one before, as clocks that differ would. */
  async function midnight(job: string) {
    const prefix = uniquePrefix();
    const apps: TestApp[] = [];
    for (let i = 0; i < 3; i += 1) {
      apps.push(await startApp({ prefix, imports: [ScheduleModule.forRoot()], providers: [NightlyJob] }));
    }
    const { log } = apps[0];
    for (const [i, app] of apps.entries()) {
      void app.nest.get(SchedulerRegistry).getCronJob(job).fireOnTick();
      await log.until(new RegExp(`^(released|refused) ${job}`), i + 1);
    }
    return { runs: log.count(`granted ${job}`), apps };
  }

  it('runs once with minHoldMs, and the lock stays closed', async () => {
    const { runs, apps } = await midnight('nightly');
    expect(runs).toBe(1);
    expect(apps.flatMap(({ nest }) => nest.get(NightlyJob).tokens)).toHaveLength(1);
    expect(await apps[2].locks.tryAcquire('nightly')).toBeNull();
    for (const { nest } of apps.slice(0, 2)) await nest.close(); // a deployment
    expect(await apps[2].locks.tryAcquire('nightly')).toBeNull();
    await apps[2].locks.forceRelease('nightly');
  });

  it('runs three times without minHoldMs', async () => {
    const { runs } = await midnight('hasty');
    expect(runs).toBe(3);
  });
});
