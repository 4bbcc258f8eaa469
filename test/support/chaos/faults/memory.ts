import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { eventually } from '../../redis-locks.js';
import type { HoldDetails } from '../fleet/fleet.js';
import type { Scene } from '../scene.js';
import { keyOf } from '../workload/key.js';
import { PERMITS } from '../workload/kinds.js';
import { among, type Fault, leases } from './fault.js';

/** Faults of a server whose memory is full. */

const LEASE_MS = 2_500;
/** Longer than the lease, so that the holds need renewals without memory. */
const HOLD_MS = 3_500;

/** @param holders how many members hold the lock: enough to make all others wait. */
function outOfMemory(holders = 1, how: HoldDetails = {}): Fault {
  return {
    name: 'maxmemory, noeviction',
    what: 'the server refuses writes that need memory while the lock is renewed and released',
    ablation: 'renewals without memory',
    breaks: 'hold lost',
    terms: leases(LEASE_MS),
    // Without a release, the lock would stay closed for a lease after the fault.
    promises: { waitMs: 9_000, afterMs: 1_800, refuses: true, keepsUpdates: true },
    stores: {
      token: {},
      // Its renewals write a new value, which needs memory.
      timestamp: { losesHolds: true, keepsUpdates: undefined },
      redisson: {},
      quorum: {},
    },
    async inject(scene) {
      const { fleet, random } = scene;
      const members = fleet.some(holders, random);
      await fleet.longHolds(members, HOLD_MS, how);
      await fleet.allWait(...members);
      scene.injected(this.name);
      await limitMemory(scene, '1');
      await fleet.longHoldsEnd();
      await scene.sleep(200);
      await limitMemory(scene, '0');
      scene.healed(this.name);
      await scene.settle();
    },
  };
}

/** A cache entry, which has a lifetime as locks have. */
const ENTRY_BYTES = 1_024;
const ENTRIES = 200;
const ENTRY_S = 5;
/** How much the cache may use. */
const CACHE_BYTES = 2 * 2 ** 20;
const EVICTED_MS = 20_000;

const evicted: Fault = {
  name: 'maxmemory, volatile-lru',
  what: "a cache on the same server fills its memory until the lock's key is evicted, after the last check of the lock",
  ablation: 'fence',
  breaks: 'fenced update lost',
  terms: leases(2_000, { waitMs: 30_000 }),
  // Redis chooses among samples of its keys: it may take long to choose the lock.
  promises: { waitMs: EVICTED_MS + 6_000, afterMs: 6_000, losesHolds: true, overlapMs: Infinity, refuses: true },
  stores: { token: {}, redisson: {}, quorum: {} },
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 60_000, { lookAfterMs: 50 });
    await fleet.looked(holder);
    await fleet.allWait(holder);
    scene.injected(this.name);
    await scene.dataLost(() => Promise.all(scene.topology.servers.map(({ admin }) => evictLock(admin))));
    scene.healed(this.name);
    await fleet.written(holder);
    await scene.settle(holder);
  },
};

const AMONG_READERS = { reader: true } as const;

export const memoryFaults = [
  outOfMemory(),
  among('readers', outOfMemory(2, AMONG_READERS)),
  among('permits', outOfMemory(PERMITS)),
  evicted,
] as const;

function limitMemory({ topology }: Scene, bytes: string): Promise<unknown> {
  return Promise.all(topology.servers.map(({ admin }) => admin.config('SET', 'maxmemory', bytes)));
}

/** Writes cache entries until Redis has evicted the lock. */
async function evictLock(admin: Redis): Promise<void> {
  const before = await holderOf(admin);
  const used = Number(/^used_memory:(\d+)/m.exec(await admin.info('memory'))?.[1]);
  await admin.config('SET', 'maxmemory-policy', 'volatile-lru');
  await admin.config('SET', 'maxmemory', String(used + CACHE_BYTES));
  try {
    const value = randomBytes(ENTRY_BYTES / 2).toString('hex');
    let written = 0;
    await eventually(
      'the lock is evicted',
      async () => {
        const entries = Array.from({ length: ENTRIES }, () => [
          'set',
          `cache:${(written += 1)}`,
          value,
          'EX',
          `${ENTRY_S}`,
        ]);
        await admin.pipeline(entries).exec();
        return (await holderOf(admin)) !== before;
      },
      EVICTED_MS,
    );
  } finally {
    await admin.config('SET', 'maxmemory', '0');
    await admin.config('SET', 'maxmemory-policy', 'noeviction');
  }
}

/** Returns what names the holder: the value, or the field of Redisson's hash. The waiters may lock it at once. */
async function holderOf(admin: Redis): Promise<string | undefined> {
  const key = keyOf();
  if ((await admin.type(key)) === 'hash') return (await admin.hkeys(key))[0];
  return (await admin.get(key))?.split(' ')[0];
}
