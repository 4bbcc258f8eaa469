import { describe, expect, it } from '@jest/globals';
import type { Timer } from '../../../lib/clock/clock.js';
import { TimeoutPool, type TimeoutPoolListener } from '../../../lib/clock/timeout-pool.js';
import { PendingRequests } from '../../../lib/stores/pending-requests.js';
import { outcome } from '../../support/async.js';
import { RecordingClock } from '../../support/recording-clock.js';

describe('TimeoutPool', () => {
  function pool(listener: TimeoutPoolListener = { onLook: () => undefined, hasFailed: () => true }) {
    const inner = new RecordingClock();
    const clock = new TimeoutPool(inner, 1_000, listener);
    const fired: string[] = [];
    const limit = (onTimeout: () => void): Timer => clock.limitRequest('goods:1', { onTimeout }, inner.now());
    const start = (name: string): Timer => limit(() => fired.push(name));
    return { inner, clock, fired, limit, start };
  }

  it('serves all requests of a store', () => {
    const clock = new RecordingClock();
    const requests = new PendingRequests({ clock, requestTimeoutMs: 1_000 }, {}, () => undefined);
    const never = new Promise<never>(() => undefined);
    for (let i = 0; i < 100; i += 1) outcome(requests.expect(`goods:${i}`, () => never));
    // It looks ten times in the time limit.
    expect(clock.scheduled).toEqual([{ delayMs: 100, background: true }]);
  });

  it('schedules background timers again after timeouts expire', async () => {
    const { inner, fired, start } = pool();
    start('a');
    await inner.advance(500);
    start('b');
    await inner.advance(600);
    expect(fired).toEqual(['a']);
    await inner.advance(500);
    expect(fired).toEqual(['a', 'b']);
    expect(inner.scheduled.filter(({ background }) => !background)).toEqual([]);
  });

  it.each([
    ['side by side', [1, 2, 3]],
    ['from the youngest to the oldest', [4, 3, 2, 1, 0]],
  ])('keeps the order of the others if some are cancelled twice, %s', async (_, cancelled) => {
    const { inner, fired, start } = pool();
    const names = ['a', 'b', 'c', 'd', 'e'];
    const timers = names.map(start);
    for (const i of [...cancelled, ...cancelled]) timers[i].cancel();
    start('f');
    await inner.advance(1_000);
    expect(fired).toEqual([...names.filter((_name, i) => !cancelled.includes(i)), 'f']);
  });

  it('lets a timeout cancel one that expires after it', async () => {
    const { inner, fired, limit, start } = pool();
    limit(() => later.cancel());
    start('b');
    const later = start('c');
    start('d');
    await inner.advance(1_000);
    expect(fired).toEqual(['b', 'd']);
  });

  it('asks its listener before a timeout expires, and again at each further look', async () => {
    const asked: string[] = [];
    let hasFailed = false;
    const { inner, fired, start } = pool({
      onLook: () => undefined,
      hasFailed: (key) => {
        asked.push(key);
        return hasFailed;
      },
    });
    start('a');
    await inner.advance(1_200);
    expect([fired, new Set(asked)]).toEqual([[], new Set(['goods:1'])]);
    hasFailed = true;
    await inner.advance(200);
    expect(fired).toEqual(['a']);
  });

  it('lets all timeouts expire when it is closed, and later ones have a timer each', async () => {
    const { inner, clock, fired, start } = pool();
    for (const name of ['a', 'b', 'c']) start(name);
    clock.close();
    expect(fired).toEqual(['a', 'b', 'c']);
    expect(inner.pending).toBe(0);
    start('d');
    start('e');
    expect(inner.pending).toBe(2);
    await inner.advance(1_000);
    expect(fired).toEqual(['a', 'b', 'c', 'd', 'e']);
  });
});
