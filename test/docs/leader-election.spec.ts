import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { LockService } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock, RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { eventually } from '../support/async.js';
import { CleanUpService } from './leader-election/cron.js';
import { leadQueue } from './leader-election/lead.js';
import { OutboxService } from './leader-election/while-leader.js';

describe('the page on leader election', () => {
  it('has a method and a cron job that run on the leader', async () => {
    const module = await Test.createTestingModule({
      imports: [RedisLockTestingModule.forRoot({ clock: new ManualClock() }), ScheduleModule.forRoot()],
      providers: [OutboxService, CleanUpService],
    }).compile();
    await module.init();
    const cleanUp = module.get(CleanUpService);
    const outbox = module.get(OutboxService);
    await eventually('the outbox is empty', () => outbox.sent.length === 2);
    await eventually('it leads', async () => (await module.get(LockService).inspect('clean-up')) !== null);
    await cleanUp.everyMinute();
    expect(cleanUp.removed).toBe(300);
    await module.close();
  });

  it('has a candidate that logs its terms', async () => {
    const locks = createTestLocks({ clock: new ManualClock() });
    const lines: string[] = [];
    const leadership = leadQueue(locks, (line) => lines.push(line));
    await eventually('it leads', () => leadership.isLeader);
    await leadership.close();
    expect(lines).toEqual([expect.stringMatching(/^leads with token \d+$/), 'stepped down']);
  });
});
