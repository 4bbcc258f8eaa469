// Releases whose request or reply is lost with the connection, without an error of the client.
import { describe, expect, it } from '@jest/globals';
import { LockUnavailableError } from 'nestjs-redis-lock';
import { outcome } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

/** Returns an instance whose release is on its way and gets no reply. */
async function releasing() {
  const all = faultyLocks();
  const lock = await all.locks.acquire('goods:300');
  all.store.delay('release');
  return { ...all, released: outcome(lock.release()) };
}

it('a release that has failed is repeated at once after a reconnect', async () => {
  const { locks, store, clock } = faultyLocks();
  const lock = await locks.acquire('goods:300');
  store.fail('release', new LockUnavailableError('Connection is closed.'));
  await expect(lock.release()).rejects.toThrow(LockUnavailableError);
  // The pauses double, to 1 s.
  await clock.advance(2_000);
  const { length } = store.releases;
  store.fail('release');
  store.reconnect();
  await clock.advance(0);
  expect(store.releases).toHaveLength(length + 1);
  await clock.advance(60_000);
  expect(store.releases).toHaveLength(length + 1);
});

describe('a release without a reply', () => {
  it('is repeated after its timeout if the connection has ended since', async () => {
    const { store, memory, clock, released } = await releasing();
    store.disconnect();
    await clock.advance(1_000);
    expect(released.error).toBeInstanceOf(LockUnavailableError);
    await clock.advance(100);
    expect(store.releases).toHaveLength(2);
    store.arrive('release');
    await clock.advance(0);
    expect(await memory.inspect(KEY)).toBeNull();
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(2);
  });

  it('is repeated when the connection ends after its timeout, and not before', async () => {
    const { store, clock } = await releasing();
    await clock.advance(5_000);
    expect(store.releases).toHaveLength(1);
    store.disconnect();
    await clock.advance(100);
    expect(store.releases).toHaveLength(2);
  });

  it('is repeated again if the repetition gets no reply either, until the lease is over', async () => {
    const { store, locks, clock } = await releasing();
    store.disconnect();
    await clock.advance(10_000);
    const { length } = store.releases;
    expect(length).toBeGreaterThan(4);
    await clock.advance(60_000);
    expect(store.releases.length).toBeLessThan(30);
    const total = store.releases.length;
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(total);
    const closing = outcome(locks.engine.close(0));
    await clock.advance(0);
    expect(closing).toHaveProperty('value');
  });

  it('is not repeated if the reply came late, and the connection ends after it', async () => {
    const { store, clock } = await releasing();
    await clock.advance(1_500);
    store.arrive('release');
    await clock.advance(0);
    store.disconnect();
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(1);
  });

  it('is ignored if a repetition has been answered, and comes late', async () => {
    const { store, locks, clock } = await releasing();
    store.disconnect();
    await clock.advance(1_100);
    store.arrive('release');
    await clock.advance(0);
    const closing = outcome(locks.engine.close(0));
    await clock.advance(0);
    expect(closing).toHaveProperty('value');
  });
});
