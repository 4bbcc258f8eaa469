import { expect, it } from '@jest/globals';
import { LockReplicationError, LockUnavailableError } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../../../../lib/stores/memory/memory.store.js';
import type {
  AcquireRequest,
  ExtendRequest,
  LockStore,
  StoreListener,
} from '../../../../../lib/core/store/lock-store.js';
import type { Acks, Confirmed } from '../../../../../lib/stores/token/replication/replica-acks.js';
import { ReplicatedStore } from '../../../../../lib/stores/token/replication/replicated.store.js';

/** Renews a lock that the master has, with this result of the replicas. */
async function renew(confirmed: Confirmed): Promise<unknown> {
  const master = { capabilities: {}, extend: async () => ['renewed'] } as unknown as LockStore;
  const acks = { confirm: async () => [confirmed], onLockMissing: () => undefined } as unknown as Acks;
  const [reply] = await new ReplicatedStore(master, () => acks, new ManualClock()).extend([{} as ExtendRequest]);
  return reply;
}

it.each<[string, Confirmed, string]>([
  ['acknowledge it', 'renewed', 'renewed'],
  ['are too few', new LockReplicationError('0 of 1'), 'unreplicated'],
  ['cannot be asked', new LockUnavailableError('no connection'), 'unknown'],
  ['do not have the lock', 'lost', 'unknown'],
])('a renewal by the master counts only if replicas acknowledge it: they %s', async (_what, confirmed, reply) => {
  expect(await renew(confirmed)).toBe(reply);
});

it('a lock that others have is not asked for at the replicas', async () => {
  const held = { status: 'held', queued: false } as const;
  const master = { capabilities: {}, acquire: async () => held } as unknown as LockStore;
  const acks = { confirm: async () => ['lost'], onLockMissing: () => undefined } as unknown as Acks;
  const request = { keys: ['goods:300'], owner: 'one:1', leaseMs: 30_000 } as unknown as AcquireRequest;
  expect(await new ReplicatedStore(master, () => acks, new ManualClock()).acquire(request)).toBe(held);
});

const WANTED = {
  keys: ['goods:300'],
  mode: 'exclusive',
  queue: true,
  handoffMs: 1_200,
  tokens: 1,
  expiresAt: Infinity,
} as const;

it('a prompt is passed on without a wait for replicas', async () => {
  const clock = new ManualClock();
  const master = new MemoryStore(clock);
  const silent = { confirm: () => new Promise(() => undefined) } as unknown as Acks;
  const store = new ReplicatedStore(master, () => silent, clock);
  const prompts: unknown[] = [];
  const listener = { instanceId: 'one', onHandoff: (handoff: unknown) => void prompts.push(handoff) };
  const stop = store.listen(listener as unknown as StoreListener);
  const acquire = (owner: string, leaseMs: number): unknown => master.acquire({ ...WANTED, owner, leaseMs });
  await acquire('two:1', 100);
  for (const owner of ['one:1', 'one:2']) await acquire(owner, 30_000);
  await clock.advance(101);
  await acquire('one:1', 30_000);
  await clock.advance(0);
  expect(prompts).toEqual([expect.objectContaining({ owner: 'one:2', grantedAt: undefined })]);
  stop();
});
