import { Controller, Get, Injectable } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked, LockClosedError, LockService } from 'nestjs-redis-lock';
import { eventually } from '../support/async.js';
import { closeApps, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';

/** Once a year. The test fires the job. */
const NEVER = '0 0 0 1 1 *';

@Injectable()
class Jobs {
  readonly calls: string[] = [];

  @Cron(NEVER, { name: 'above' })
  @Locked('above', { waitMs: 60_000 })
  above(): Promise<void> {
    this.calls.push('above');
    return Promise.resolve();
  }

  @Locked('below', { waitMs: 60_000 })
  @Cron(NEVER, { name: 'below' })
  below(): Promise<void> {
    this.calls.push('below');
    return Promise.resolve();
  }

  @OnEvent('sold')
  @Locked('sold:<id>')
  sold(id: number): void {
    this.calls.push(`sold ${id}`);
  }

  @OnEvent('paid')
  @Locked('paid:<id>', { background: false })
  paid(id: number): void {
    this.calls.push(`paid ${id}`);
  }

  @Locked('poll', { background: true })
  poll(): Promise<string> {
    this.calls.push('poll');
    return Promise.resolve('polled');
  }
}

@Controller()
class ShopController {
  constructor(
    private readonly room: Room,
    private readonly jobs: Jobs,
    private readonly events: EventEmitter2,
    private readonly locks: LockService,
  ) {}

  @Get('stay')
  @Locked('stay')
  async stay(): Promise<string> {
    await this.room.stay();
    await this.events.emitAsync('sold', 1);
    await this.jobs.poll();
    await this.locks.using('inner', { background: true }, () => this.jobs.calls.push('inner'));
    return 'stayed';
  }
}

const start = () =>
  startApp({
    imports: [ScheduleModule.forRoot(), EventEmitterModule.forRoot()],
    controllers: [ShopController],
    providers: [Jobs],
    locks: { shutdownGraceMs: 60_000 },
  });

/** Returns an application whose shutdown has begun and waits for a request. */
async function closingApp(before: (app: TestApp) => unknown = () => undefined) {
  const app = await start();
  const call = app.call('/stay');
  const visit = await app.room.next();
  await before(app);
  const closing = app.close();
  await eventually('the shutdown begins', () => app.locks.isShuttingDown);
  const end = async (): Promise<number> => {
    visit.leave();
    const { status } = await call;
    await closing;
    return status;
  };
  return { app, jobs: app.nest.get(Jobs), end };
}

afterEach(closeApps);

describe('work that nobody waits for, in a shutdown', () => {
  it('is not called and logs no warning', async () => {
    const { app, jobs, end } = await closingApp();
    const emitter = app.nest.get(EventEmitter2);
    expect(await emitter.emitAsync('sold', 7)).toEqual([undefined]);
    expect(await Promise.all([jobs.above(), jobs.below(), jobs.poll()])).toEqual([undefined, undefined, undefined]);
    await emitter.emitAsync('paid', 7);
    expect([jobs.calls, app.logged]).toEqual([['paid 7'], []]);
    await end();
  });

  it('is refused for calls of the service that say so', async () => {
    const { app, end } = await closingApp();
    const { locks } = app;
    await expect(locks.using('report', { background: true }, () => 1)).rejects.toBeInstanceOf(LockClosedError);
    await expect(locks.tryAcquire('report', { background: true })).rejects.toBeInstanceOf(LockClosedError);
    await expect(locks.acquire(['a:1', 'a:2'], { background: true })).rejects.toBeInstanceOf(LockClosedError);
    expect(await locks.using('report', () => 1)).toBe(1);
    await end();
  });

  it.each(['above', 'below'])('stops waiting at once (@Cron %s @Locked)', async (job) => {
    const { app, jobs, end } = await closingApp(async ({ nest, locks, log }) => {
      await locks.acquire(job);
      void nest.get(SchedulerRegistry).getCronJob(job).fireOnTick();
      await log.until(`requested ${job}`, 2);
    });
    await app.log.until(`refused ${job}`);
    expect([jobs.calls, app.logged]).toEqual([[], []]);
    await app.nest.get(LockService).forceRelease(job);
    await end();
  });

  it('goes on inside a request that holds its lock', async () => {
    const { jobs, end } = await closingApp();
    expect(await end()).toBe(200);
    expect(jobs.calls).toEqual(['sold 1', 'poll', 'inner']);
  });

  it('does not begin to campaign', async () => {
    const { app, end } = await closingApp();
    const leadership = app.locks.lead('report');
    await leadership.ended;
    expect(leadership.isLeader).toBe(false);
    await end();
  });
});

describe('before a shutdown', () => {
  it('calls background work as usual', async () => {
    const app = await start();
    expect(await app.nest.get(Jobs).poll()).toBe('polled');
  });
});
