import { describe, expect, it } from '@jest/globals';
import { LockTable } from '../../lib/stores/memory/lock-table.js';

describe('the table of memory locks', () => {
  it('keeps a grant to an owner without a place if all waiters are gone', () => {
    let now = 0;
    const listening = new Set(['gone', 'other']);
    const table = new LockTable({
      now: () => now,
      wallMicros: () => now * 1_000,
      isListening: (instanceId) => listening.has(instanceId),
      wake: () => undefined,
    });
    table.acquire('key', { owner: 'other:1', mode: 'exclusive' }, 100, false, 100);
    table.acquire('key', { owner: 'gone:1', mode: 'exclusive' }, 100, true, 100);
    listening.delete('gone');
    now = 200;
    const reply = table.acquire('key', { owner: 'other:2', mode: 'exclusive' }, 1_000, false, 100);
    expect(reply).toMatchObject({ status: 'granted' });
    expect(table.holders('key')).toMatchObject([{ owner: 'other:2' }]);
  });

  it('forgets keys that have expired, although nobody asks for them again', () => {
    let now = 0;
    const table = new LockTable({
      now: () => now,
      wallMicros: () => now * 1_000,
      isListening: () => false,
      wake: () => undefined,
    });
    for (let id = 0; id < 10_000; id += 1) {
      now += 1;
      table.acquire(`mail:${id}`, { owner: `one:${id}`, mode: 'exclusive' }, 100, false, 100);
      table.release(`mail:${id}`, { owner: `one:${id}`, mode: 'exclusive' }, 500, 100, true);
    }
    expect(table.rows.size).toBeLessThan(2_000);
    expect(table.holders('mail:9999')).toMatchObject([{ isDone: true }]);
  });
});
