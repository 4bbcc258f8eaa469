import { expect, it } from '@jest/globals';
import { LockReplicationError, LockUnavailableError, memory } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { FaultyStore } from '../support/faulty-store.js';
import { ReportService } from './without-lock.js';

it('the page on errors has a method that goes on without its lock', async () => {
  const store = new FaultyStore(new MemoryStore(new ManualClock()));
  const reports = withLocks(new ReportService(), createTestLocks({ store: () => store, unavailableAfterMs: 0 }));
  for (const Failure of [LockUnavailableError, LockReplicationError]) {
    store.lose('acquire', new Failure('Redis is down.'));
    expect(await reports.report('monday')).toBe('the report of monday');
  }
  expect(await withLocks(new ReportService(), createTestLocks({ store: memory() })).report('friday')).toBe(
    'the report of friday',
  );
});
