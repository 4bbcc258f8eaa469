import { asked } from '../../support/asked.js';
import { describe, expect, it } from '@jest/globals';
import type { Lock } from 'nestjs-redis-lock';
import type { LockMode } from '../../../lib/contract/store.js';
import type { TokenStore } from '../../../lib/stores/token/token.store.js';
import { ClusterContention } from '../../support/cluster-contention.js';
import { renewed } from '../../support/redis-locks.js';
import { storeOf } from '../../support/inside.js';
import { forTests } from '../../support/for-tests.js';

/** The lease of a dead holder, which others wait for. */
const DEAD_MS = 6_000;

const READER = { mode: 'shared' } as const;
const PERMIT = { permits: 2 } as const;
const MODES = [
  ['readers', READER, 'shared'],
  ['permits', PERMIT, 2],
] as const;

const here = forTests(new ClusterContention({ replicas: false }, [0, 300, -300]));

/** Acquires the lock from two instances, which hold it together. */
function together(options: typeof READER | typeof PERMIT): Promise<Lock[]> {
  return Promise.all([1, 2].map(() => here.instance().acquire('goods:300', { ...options, ttlMs: 60_000 })));
}

/** Acquires the lock and never releases it. */
async function dies(mode: LockMode): Promise<void> {
  const locks = here.instance();
  const dead = { key: here.key, owner: 'dead:1', mode, leaseMs: DEAD_MS, handoffMs: 500, wait: false } as const;
  expect((await asked(storeOf<TokenStore>(locks)).acquire(dead)).status).toBe('granted');
}

describe.each(MODES)('%s, while the slot moves between nodes whose clocks differ by minutes', (_, options, mode) => {
  const DIRECTIONS = [
    ['ahead', 0, 1],
    ['behind', 1, 2],
  ] as const;

  /** Moves the slot to that master unless it is there. */
  async function moveTo(place: number): Promise<void> {
    const master = here.cluster.masters[place];
    if ((await here.cluster.ownerOf(here.key)) !== master) await here.cluster.migrate(here.key, master);
  }

  it('repeat a failed release if the move outlasts requestTimeoutMs', async () => {
    // Only their releases end them in time.
    const held = await together(options);
    const { moveKeys, finish } = await here.cluster.migration(here.key, await here.cluster.otherThan(here.key));
    await moveKeys();
    // Nobody waits, so the queue is absent: no node has all keys (TRYAGAIN).
    const answers = held.map((lock) => lock.release().catch((error: Error) => error.name));
    expect(await Promise.all(answers)).toEqual(['LockUnavailableError', 'LockUnavailableError']);
    await finish();
    await (await here.instance().acquire('goods:300')).release();
    expect(await here.leftovers()).toEqual([]);
  });

  it.each(DIRECTIONS)('keep the lock and exclude others where the clock is %s', async (__, from, to) => {
    await moveTo(from);
    const held = await together(options);
    const other = here.instance();
    const letIn = async (): Promise<boolean> => (await other.tryAcquire('goods:300')) !== null;
    await moveTo(to);
    expect(await letIn()).toBe(false);
    await Promise.all(held.map(renewed));
    expect(await letIn()).toBe(false);
    expect(await Promise.all(held.map((lock) => lock.release()))).toEqual([true, true]);
    expect(await letIn()).toBe(true);
  });

  it.each(DIRECTIONS)(
    'exclude others where the clock is %s until the lease of dead holders ends',
    async (__, from, to) => {
      await moveTo(from);
      await dies(mode);
      await moveTo(to);
      const other = here.instance();
      expect(await other.tryAcquire('goods:300')).toBeNull();
      await (await other.acquire('goods:300')).release();
      expect(await here.leftovers()).toEqual([]);
    },
  );
});
