import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { createTestLocks, ManualClock, RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { eventually } from '../support/async.js';
import { leadQueue } from './leader-election/lead.js';
import { OutboxService } from './leader-election/while-leader.js';

describe('the page on leader election', () => {
  it('has a method that runs on the leader', async () => {
    const module = await Test.createTestingModule({
      imports: [RedisLockTestingModule.forRoot({ clock: new ManualClock() })],
      providers: [OutboxService],
    }).compile();
    await module.init();
    const outbox = module.get(OutboxService);
    await eventually('the outbox is empty', () => outbox.outbox.length === 0);
    expect(outbox.sent).toEqual(['invoice 1', 'invoice 2']);
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
