import { describe, expect, it } from '@jest/globals';
import { LockClosedError, lockChannels, LockUnavailableError } from 'nestjs-redis-lock';
import { outcome } from '../../../support/async.js';
import { faultyLocks } from '../../../support/locks.js';

const BOTH = ['goods:1', 'goods:2'];

/** The microtasks from a multi-key reply to the next request. */
const MICROTASKS = Array.from({ length: 16 }, (_, i) => i);

/** Requests two keys, one of which is held elsewhere. Resolves `microtasks` microtasks after the reply. */
async function afterReply(microtasks: number, signal?: AbortSignal) {
  const all = faultyLocks();
  await all.stranger.take('{lock_goods}:2');
  all.store.hold('acquire');
  const waiting = outcome(all.locks.acquire(BOTH, { waitMs: 60_000, signal }));
  await all.clock.advance(0);
  all.store.deliver('acquire');
  for (let i = 0; i < microtasks; i++) await Promise.resolve();
  return { ...all, waiting };
}

describe('between two requests of a multi-lock', () => {
  it.each(MICROTASKS)('a shutdown refuses it %i microtasks after a reply', async (microtasks) => {
    const { locks, waiting, clock, memory } = await afterReply(microtasks);
    const closed = outcome(locks.engine.close(0));
    await clock.advance(0);
    await clock.advance(2_000);
    expect(waiting.error).toBeInstanceOf(LockClosedError);
    expect(closed).toHaveProperty('value');
    expect(await memory.inspect('{lock_goods}:1')).toBeNull();
  });

  it.each(MICROTASKS)('its signal ends it %i microtasks after a reply', async (microtasks) => {
    const stop = new AbortController();
    const { waiting, clock, memory } = await afterReply(microtasks, stop.signal);
    stop.abort(new Error('enough'));
    await clock.advance(0);
    expect(waiting.error).toEqual(new Error('enough'));
    expect(await memory.inspect('{lock_goods}:1')).toBeNull();
  });

  it('its signal ends it once some of its locks are granted', async () => {
    const stop = new AbortController();
    const { locks, store, clock, memory } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire([...BOTH, 'order:1', 'order:2'], { signal: stop.signal }));
    await clock.advance(0);
    const leave = (): void => stop.abort(new Error('enough'));
    lockChannels.granted.subscribe(leave);
    store.deliver('acquire');
    await clock.advance(0);
    lockChannels.granted.unsubscribe(leave);
    expect(waiting.error).toEqual(new Error('enough'));
    for (const key of ['{lock_goods}:1', '{lock_order}:1']) expect(await memory.inspect(key)).toBeNull();
  });
});

describe('a store that sends no reply', () => {
  it('is reported after one request, not one for each lock', async () => {
    const { locks, store, clock } = faultyLocks();
    store.hold('acquire');
    const tried = outcome(locks.tryAcquire(BOTH));
    await clock.advance(1_000);
    expect(tried.error).toBeInstanceOf(LockUnavailableError);
    expect(store.acquires).toHaveLength(1);
  });
});
