// Compiled in every consumer and never run: what the types allow, and what they refuse.
import { applyDecorators, type Logger } from '@nestjs/common';
import type { Cluster, Redis } from 'ioredis';
import {
  type CommonLockOptions,
  CurrentLock,
  Locked,
  type Lock,
  type LockedDecorator,
  type LockOptions,
  type LockService,
  type MultiLock,
  type RedisLockModuleOptions,
  resource,
  WhileLeader,
} from 'nestjs-redis-lock';
import { RedisFence, SqlFence } from 'nestjs-redis-lock/fence';
import { fromNodeRedis } from 'nestjs-redis-lock/node-redis';
import { quorum } from 'nestjs-redis-lock/quorum';
import { createLocks, type Locks } from 'nestjs-redis-lock/standalone';
import type { TestingOptions } from 'nestjs-redis-lock/testing';
import { createClient, createCluster, createSentinel, type RedisClientType, type RedisClusterType } from 'redis';

interface OrderDto {
  readonly id: string;
}

export class Orders {
  @Locked('order:<id>')
  async plain(id: string): Promise<string> {
    return id;
  }

  @Locked('order:<id>', { ttlMs: 10_000, waitMs: 0, onBusy: 'skip' })
  async generic<T>(id: T, ...rest: readonly unknown[]): Promise<[T, number] | undefined> {
    return [id, rest.length];
  }

  @Locked('orders')
  async nothing(): Promise<void> {}

  @Locked((id: number) => `order:${id}`)
  async keyFunction(id: number, note: string): Promise<string> {
    return note + id;
  }

  @Locked((dto: OrderDto, note?: string) => `order:${dto.id}:${note}`)
  async dto(
    dto: OrderDto & { readonly note: string },
    note: string | undefined,
    @CurrentLock() lock?: Lock,
  ): Promise<unknown> {
    return [dto, note, lock];
  }

  @Locked(() => 'orders')
  async noParameters(id: number): Promise<number> {
    return id;
  }

  @Locked(['order:<id>', 'shop:<0>'])
  async several(id: string, @CurrentLock() locks?: MultiLock): Promise<unknown> {
    return locks?.of(`order:${id}`).fencingToken;
  }

  @Locked((dto: OrderDto, others: readonly string[]) => [`order:${dto.id}`, ...others])
  async listFunction(dto: OrderDto, others: string[]): Promise<unknown> {
    return [dto, others];
  }

  // @ts-expect-error: the key function takes a number, the method a string
  @Locked((id: number) => `order:${id}`)
  async otherType(id: string): Promise<string> {
    return id;
  }

  // @ts-expect-error: the method has one parameter only
  @Locked((id: number, note: string) => `order:${id}:${note}`)
  async tooMany(id: number): Promise<number> {
    return id;
  }

  @Locked('order:<id>', { onUnavailable: (error, id: string) => `${id}: ${error.permanent}` })
  async unavailable(id: string): Promise<string> {
    return id;
  }

  // @ts-expect-error: there is no such answer to a busy lock
  @Locked('order:<id>', { onBusy: 'retry' })
  async onBusy(id: string): Promise<string> {
    return id;
  }

  // @ts-expect-error: units are in the names
  @Locked('order:<id>', { ttl: 10_000 })
  async misspelt(id: string): Promise<string> {
    return id;
  }

  // @ts-expect-error: write async
  @Locked('order:<id>')
  noPromise(id: string): string {
    return id;
  }
}

interface HasId {
  readonly id: string;
}

/** A key function for a class's type parameter. */
export abstract class Crud<T extends HasId> {
  @Locked((dto: HasId) => `item:${dto.id}`)
  async save(dto: T): Promise<T> {
    return dto;
  }
}

/** Decorators of a program that are made of others. */
export const LockedOrder = (waitMs: number) => applyDecorators(Locked('order:<id>', { waitMs }));
export const LockedByFunction = () => applyDecorators(Locked((id: string) => `order:${id}`));
export const LockedByTeam = (waitMs: number): LockedDecorator => Locked('team', { waitMs });
export const LeaderOf = (name: string) => applyDecorators(WhileLeader(name));

export class Composed {
  @LockedOrder(0)
  locked(id: string): string {
    return id;
  }

  @LockedByFunction()
  byFunction(id: string): string {
    return id;
  }

  @LockedByTeam(0)
  async byTeam(): Promise<boolean> {
    return true;
  }

  // @ts-expect-error: the decorator of the team checks methods as @Locked does
  @LockedByTeam(0)
  noPromise(): boolean {
    return true;
  }

  @LeaderOf('report')
  async run(signal: AbortSignal): Promise<boolean> {
    return signal.aborted;
  }

  // @ts-expect-error: a leader gets a signal and a lock
  @WhileLeader('report')
  async wrong(id: number): Promise<number> {
    return id;
  }
}

interface OptionsOfTenant extends CommonLockOptions {
  readonly tenant: string;
}

/** `mode` and `permits` exclude each other. */
export async function modes(locks: LockService, given: LockOptions, team: OptionsOfTenant): Promise<void> {
  const { tenant, ...options } = team;
  const either: LockOptions = tenant === '' ? { mode: 'shared' } : { permits: 2 };
  await locks.using('order:1', given, () => undefined);
  await locks.using('order:1', { ...given, waitMs: 0 }, () => undefined);
  await locks.using(['order:1', 'order:2'], { ...options, permits: 2 }, () => undefined);
  await locks.acquire('order:1', either);
  await locks.acquire('order:1', { mode: tenant === '' ? 'shared' : 'exclusive' });
  await locks.tryAcquire('order:1', given);
  // @ts-expect-error: a semaphore has no mode
  await locks.using('order:1', { mode: 'shared', permits: 2 }, () => undefined);
  // @ts-expect-error: a semaphore has no mode
  await locks.acquire(['order:1'], { mode: 'exclusive', permits: 2 });
  // @ts-expect-error: a semaphore has no mode
  await locks.tryAcquire('order:1', { mode: 'shared', permits: 2 });
  // @ts-expect-error: units are in the names
  await locks.using('order:1', { waitMs: 0, ttl: 1_000 }, () => undefined);
}

/** Clients of either version of ioredis, as they are. */
export function clients(redis: Redis, cluster: Cluster): RedisLockModuleOptions[] {
  const options: TestingOptions = { redis, ttlMs: 100 };
  return [
    options,
    { redis },
    { redis: cluster },
    { redis: { host: 'redis', port: 1 } },
    { redis: 'redis://redis' },
    {},
  ];
}

/** Clients of either version of node-redis, as they are. */
export function nodeRedisClients(client: RedisClientType, cluster: RedisClusterType): RedisLockModuleOptions[] {
  const sentinels = [{ host: 'redis', port: 26_379 }];
  const created = fromNodeRedis(createClient({ url: 'redis://redis', RESP: 3, commandOptions: { asap: true } }));
  const replicas = fromNodeRedis(createCluster({ rootNodes: [{ url: 'redis://redis' }], useReplicas: true }));
  // @ts-expect-error: it does not say over which connection a request was sent
  const sentinel = fromNodeRedis(createSentinel({ name: 'mymaster', sentinelRootNodes: sentinels }));
  // @ts-expect-error: ioredis clients need no adapter
  const other = fromNodeRedis({} as Redis);
  const all = [fromNodeRedis(client), fromNodeRedis(cluster), created, replicas, sentinel, other];
  return [{ store: quorum(all) }, ...all.map((redis) => ({ redis }))];
}

/** Functions that `wrap()` returns have the types of those that they run. */
export async function wrapped(locks: LockService, given: LockOptions): Promise<unknown[]> {
  const byName: (id: number) => Promise<string> = locks.wrap('order:<id>', async (id: number) => String(id));
  const synchronous: (id: number) => Promise<string> = locks.wrap('order:<id>', given, (id: number) => String(id));
  // The key function gets the types of the parameters.
  const byFunction: (id: number, note: string) => Promise<string> = locks.wrap(
    (id) => resource`order:${id}`,
    async (id: number, note: string) => note + id,
  );
  const skipped: (id: number) => Promise<number | undefined> = locks.wrap(
    'order:<0>',
    { onBusy: 'skip', label: (id) => `request ${id.toFixed()}` },
    async (id: number) => id,
  );
  const instead: (id: number) => Promise<number | boolean> = locks.wrap(
    'order:<0>',
    { onUnavailable: (error, id) => id > 0 && error.permanent },
    async (id: number) => id,
  );
  const generic = locks.wrap('order:<0>', async <T>(id: T): Promise<T[]> => [id]);
  const list: string[] = await generic('a');
  const withThis = locks.wrap('order:<id>', function (this: Date, id: number) {
    return this.getTime() + id;
  });
  const sum: number = await withThis.call(new Date(), 1);
  // @ts-expect-error: it has another `this`
  await withThis(1);
  const byNumber = async (id: number): Promise<number> => id;
  // @ts-expect-error: the key function takes a string, the function a number
  locks.wrap((id: string) => `order:${id}`, byNumber);
  // @ts-expect-error: a skipped call returns undefined
  const never: (id: number) => Promise<number> = locks.wrap('order:<0>', { onBusy: 'skip' }, byNumber);
  // @ts-expect-error: the work may be done
  const once: () => Promise<number> = locks.wrap('orders', { onceMs: 1_000 }, async () => 1);
  // @ts-expect-error: units are in the names
  locks.wrap('orders', { ttl: 1_000 }, async () => 1);
  return [byName, synchronous, byFunction, skipped, instead, list, sum, never, once];
}

/** Locks without Nest are a lock service that can be closed. */
export async function standalone(redis: Redis, logger: Logger): Promise<LockService> {
  await using locks: Locks = createLocks({ redis, logger, waitMs: 0 });
  createLocks({ logger: console });
  // @ts-expect-error: it is an option of Nest's module
  createLocks({ http: { retryAfterMs: 1_000 } });
  return locks;
}

export async function service(locks: LockService): Promise<unknown[]> {
  const lock: Lock | null = await locks.tryAcquire('order:1', { ttlMs: 1_000 });
  // @ts-expect-error: trying does not wait
  await locks.tryAcquire('order:1', { waitMs: 1_000 });
  // @ts-expect-error: nor for several
  await locks.tryAcquire(['order:1'], { ttlMs: 1_000, waitMs: 1_000 });
  const answer: number = await locks.using('order:1', async ({ fencingToken, signal }) =>
    signal.aborted ? 0 : fencingToken,
  );
  const other: string = await locks.using('order:1', { waitMs: Infinity }, () => 'synchronous');
  // @ts-expect-error: it answers what the function does
  const wrong: string = await locks.using('order:1', () => 1);
  await using disposable = await locks.acquire('order:1', { signal: AbortSignal.timeout(10) });
  const several: MultiLock | null = await locks.tryAcquire(['order:1', 'order:2'] as const);
  const tokens: number[] = await locks.using(['order:1', 'order:2'], { waitMs: 1 }, (all) =>
    all.locks.map(({ fencingToken }) => fencingToken),
  );
  // @ts-expect-error: several are not a Lock
  const one: Lock = await locks.acquire(['order:1']);
  await using both = await locks.acquire(['order:1', 'order:2']);
  return [lock, answer, other, wrong, disposable, several, tokens, one, both];
}

export async function fences(redis: Redis, cluster: Cluster, lock: Lock): Promise<unknown[]> {
  const fence = new RedisFence(redis, 'order:1');
  await new RedisFence(cluster, 'order:1', { retentionMs: 60_000 }).open(lock.fencingToken);
  const reply: unknown = await fence.write(lock.fencingToken, { lua: 'return 1', keys: [], args: ['state', 1] });
  // @ts-expect-error: a script without keys
  await fence.write(lock.fencingToken, { lua: 'return 1' });
  const sql = new SqlFence('postgres');
  const promised: Promise<void> = sql.open(async () => [], 'order:1', lock.fencingToken);
  // @ts-expect-error: a synchronous client gets no promise
  const none: Promise<void> = sql.write(() => [], 'order:1', lock.fencingToken);
  return [reply, promised, none];
}
