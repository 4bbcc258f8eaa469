import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  bindLocks,
  CurrentLock,
  getLockServiceToken,
  InjectLockService,
  type Lock,
  Locked,
  LockError,
  LockParam,
  type LockService,
  memory,
  MultiLock,
  RedisLockModule,
  resource,
  token,
} from 'nestjs-redis-lock';
import { RedisFence, SqlFence } from 'nestjs-redis-lock/fence';
import { redisson } from 'nestjs-redis-lock/redisson';
import {
  createTestBench,
  createTestLocks,
  RedisLockTestingModule,
  withLocks,
  withMemoryLocks,
} from 'nestjs-redis-lock/testing';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { eventually } from '../support/async.js';
import { ABORT_REASON, CallbackError, type Garbage, GarbageMaker, SECRET } from '../support/garbage.js';
import { randomFrom } from '../support/random.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { keptBy } from '../support/inside.js';

const SEED = 14;
const LONGEST_MESSAGE = 2_500;
const LOCK_OPTIONS = 'ttlMs waitMs maxHoldMs minHoldMs onLost awaitRelease signal mode permits constructor'.split(' ');
const MODULE_OPTIONS = [
  ...'ttlMs waitMs unavailableAfterMs maxHoldMs minHoldMs onLost awaitRelease redis prefix hashTag key fairness lockDelayMs'.split(
    ' ',
  ),
  ...'replicas shutdownGraceMs store name isGlobal clock __proto__ toString'.split(' '),
  'checks',
  'http',
];
// Nest itself reads the values of the others.
const ASYNC_OPTIONS = ['name', 'isGlobal', 'toString'];

/** A public entry: makes garbage for its arguments, and calls it with them. */
type Entry = readonly [
  args: (make: GarbageMaker) => readonly Garbage[],
  call: (...args: readonly unknown[]) => unknown,
];

type Entries = Readonly<Record<string, Entry>>;

/** Calls a function with arguments that its types do not allow. */
function invoke(called: unknown, ...args: readonly unknown[]): unknown {
  return Reflect.apply(called as (...all: readonly unknown[]) => unknown, undefined, args);
}

/** Calls a method with arguments that its types do not allow. */
function send(receiver: object, method: string, ...args: readonly unknown[]): unknown {
  return Reflect.apply(Reflect.get(receiver, method) as (...all: readonly unknown[]) => unknown, receiver, args);
}

/** Makes an instance with arguments that its types do not allow. */
function construct(made: unknown, ...args: readonly unknown[]): unknown {
  return Reflect.construct(made as new (...all: readonly unknown[]) => unknown, args);
}

let redis: Redis;
let locks: LockService;
let held: Lock;
let several: MultiLock;

beforeAll(async () => {
  Logger.overrideLogger(false);
  redis = new Redis(testRedisUrl());
  locks = createTestLocks();
  // A slow machine must not lose them.
  const long = { ttlMs: 600_000 };
  held = await locks.acquire('held', long);
  several = await locks.acquire(['held:1', 'held:2'], long);
});
afterAll(async () => {
  await held.release();
  await several.release();
  await redis.quit();
});

const anything = (make: GarbageMaker) => [make.any()];
const lockCall = (make: GarbageMaker) => [make.either('free', ['free:1', 'free:2']), make.options(LOCK_OPTIONS)];

async function release(result: unknown): Promise<void> {
  const lock = (await result) as Lock | null;
  await lock?.release();
}

/** Decorates a new class and calls its method. */
async function callLocked(given: unknown, options: unknown, argument: unknown): Promise<unknown> {
  class Service {
    buy(id: unknown): unknown {
      return typeof id;
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Service.prototype, 'buy') as PropertyDescriptor;
  invoke(invoke(Locked, given, options), Service.prototype, 'buy', descriptor);
  Object.defineProperty(Service.prototype, 'buy', descriptor);
  return withLocks(new Service(), locks).buy(argument);
}

/** Makes a service with options, and connects to nothing. */
const makeLocks = (options: unknown): LockService => invoke(createTestLocks, options) as LockService;

const services: Entries = {
  acquire: [lockCall, (...args) => release(send(locks, 'acquire', ...args))],
  tryAcquire: [lockCall, (...args) => release(send(locks, 'tryAcquire', ...args))],
  using: [(make) => [...lockCall(make), make.either(() => 1)], (...args) => send(locks, 'using', ...args)],
  'using without options': [(make) => [make.either('free'), make.any()], (...args) => send(locks, 'using', ...args)],
  inspect: [anything, (given) => send(locks, 'inspect', given)],
  assertHeld: [
    (make) => [make.either('held'), make.options(['mode', 'toString'])],
    (...args) => send(locks, 'assertHeld', ...args),
  ],
  current: [anything, (given) => send(locks, 'current', given)],
  extend: [anything, (given) => send(held, 'extend', given)],
  'MultiLock.of': [anything, (given) => send(several, 'of', given)],
  createTestLocks: [(make) => [make.options(MODULE_OPTIONS)], (given) => void makeLocks(given)],
  createTestBench: [(make) => [make.options(MODULE_OPTIONS)], (given) => void invoke(createTestBench, given)],
  withLocks: [
    (make) => [make.either({}), make.either(locks), make.either('default')],
    (...args) => void invoke(withLocks, ...args),
  ],
  bindLocks: [
    (make) => [make.either({}), make.either(locks), make.either('default')],
    (...args) => void invoke(bindLocks, ...args),
  ],
  withMemoryLocks: [
    (make) => [make.either(Test.createTestingModule({})), make.options(['bench', 'clock', 'store'])],
    (...args) => void invoke(withMemoryLocks, ...args),
  ],
  'timestamp()': [
    (make) => [make.options(['unit', 'scripts', 'retryCount', 'retryDelayMs', 'toString'])],
    (given) => void makeLocks({ store: invoke(timestamp, given) }),
  ],
  'redisson()': [
    (make) => [make.options(['fencing', 'constructor'])],
    (given) => void makeLocks({ store: invoke(redisson, given) }),
  ],
  'token()': [anything, (given) => void makeLocks({ store: invoke(token, given) })],
  'a key function': [anything, (given) => release(makeLocks({ key: () => given }).acquire('free'))],
};

class Target {
  readonly locks = 1;
}

const decorators: Entries = {
  '@Locked': [
    (make) => [
      make.either('goods:<id>', ['goods:<id>', 'a']),
      make.options([...LOCK_OPTIONS, 'name', 'onBusy', 'onUnavailable']),
      make.any(),
    ],
    (given, options, argument) => callLocked(given, options, argument),
  ],
  '@Locked without options': [
    (make) => [make.either('goods:<id>', '<0>', '<id.a.b>', ['<id>']), make.either('x', ['x', 'y'])],
    (given, argument) => callLocked(given, undefined, argument),
  ],
  '@Locked with a function': [anything, (given) => callLocked(() => given, undefined, 1)],
  '@LockParam': [anything, (given) => invoke(LockParam, given)],
  '@LockParam of a method': [anything, (given) => invoke(invoke(LockParam, given), Target.prototype, 'buy', 0)],
  '@CurrentLock': [anything, (given) => invoke(CurrentLock, given)],
  InjectLockService: [anything, (given) => invoke(InjectLockService, given)],
  getLockServiceToken: [anything, (given) => invoke(getLockServiceToken, given)],
  'resource as a function': [(make) => [make.any(), make.any()], (...args) => invoke(resource, ...args)],
  'resource as a tag': [anything, (given) => resource`goods:${given as string}`],
};

const fences: Entries = {
  SqlFence: [
    (make) => [make.either('postgres'), make.options(['table', 'constructor'])],
    (...args) => void construct(SqlFence, ...args),
  ],
  'SqlFence.open': [
    (make) => [make.either(() => [{ token: 5 }]), make.either('goods'), make.either(5)],
    (...args) => send(new SqlFence('mysql'), 'open', ...args),
  ],
  'SqlFence.open of rows': [
    (make) => [make.either([{ token: make.any().value }])],
    (rows) => new SqlFence('sqlite').open(() => rows, 'goods', 5),
  ],
  RedisFence: [
    (make) => [make.either(redis), make.either('goods'), make.options(['retentionMs', 'toString'])],
    (...args) => void construct(RedisFence, ...args),
  ],
  'RedisFence.open': [anything, (given) => send(new RedisFence(redis, uniquePrefix()), 'open', given)],
  'RedisFence.write': [
    (make) => [
      make.either(5),
      make.either({ lua: 'return 1', keys: [uniquePrefix()], args: [make.any().value] }, { keys: [], argv: [] }),
    ],
    async (...args) => {
      const fence = new RedisFence(redis, uniquePrefix());
      await fence.open(5);
      await send(fence, 'write', ...args);
    },
  ],
};

/** Starts and ends an application. No Redis is needed unless the garbage says so. */
async function startApplication(imported: () => never): Promise<void> {
  const module = await Test.createTestingModule({ imports: [imported()] }).compile();
  try {
    await module.init();
  } finally {
    await module.close();
  }
}

/** Adds a store in memory to options that can take one, so that nothing connects. */
function withMemory(given: unknown): never {
  try {
    return { store: memory(), ...(given as object) } as never;
  } catch {
    return given as never;
  }
}

function canBeAwaited(value: unknown): boolean {
  try {
    return (value as { readonly then?: unknown } | null | undefined)?.then === undefined;
  } catch {
    return false;
  }
}

const modules: Entries = {
  'RedisLockTestingModule.forRoot': [
    (make) => [make.options(MODULE_OPTIONS.filter((name) => name !== 'clock'))],
    (given) => startApplication(() => RedisLockTestingModule.forRoot(given as object) as never),
  ],
  'RedisLockModule.forRoot': [
    (make) => [make.options(MODULE_OPTIONS)],
    (given) => startApplication(() => RedisLockModule.forRoot(withMemory(given)) as never),
  ],
  'RedisLockModule.forRootAsync': [
    (make) => [make.options(ASYNC_OPTIONS)],
    (given) => void RedisLockModule.forRootAsync(given as object),
  ],
  'a factory of options': [
    (make) => [make.options(MODULE_OPTIONS)],
    // Nest awaits what a factory returns, and so reads it.
    (given) => {
      const useFactory = (): never => (canBeAwaited(given) ? withMemory(given) : undefined) as never;
      return startApplication(() => RedisLockModule.forRootAsync({ useFactory }) as never);
    },
  ],
};

/** Whether an error is of the caller's own code or of its Redis: a class that is called, or a script that is wrong. */
function isOfCaller(error: unknown): boolean {
  if (error === ABORT_REASON || error instanceof CallbackError) return true;
  const { name, message } = error as Error;
  return name === 'ReplyError' || /^Class constructor \w+ cannot be invoked/.test(message);
}

/** Returns what is wrong with what came out. Undefined if it is an error of the library or of the caller's own code. */
function complaintAbout(error: unknown): string | undefined {
  if (isOfCaller(error)) return undefined;
  if (!(error instanceof LockError)) return String((error as Error)?.stack ?? error).slice(0, 1_000);
  // An error names the resource that its caller named, which may be a URL.
  const named: unknown = error.resource;
  const message = typeof named === 'string' ? error.message.replace(named, '') : error.message;
  if (message.includes(SECRET)) return `a password: ${message}`;
  if (error.message.length > LONGEST_MESSAGE)
    return `${error.message.length} characters: ${error.message.slice(0, 300)}`;
  return undefined;
}

/** Returns whether only the three locks of this file are held. A `minHoldMs` of 60 may keep another one until then. */
async function isTidy(): Promise<boolean> {
  const onlyOurs = (): boolean => keptBy(locks) === 6;
  if (onlyOurs()) return true;
  return eventually('nothing else is held', onlyOurs, 5_000).then(
    () => true,
    () => false,
  );
}

/** Calls entries with garbage. Returns a line for each case that broke the rules, and how many were refused. */
async function fuzz(entries: Entries, cases: number) {
  const make = new GarbageMaker(randomFrom(SEED));
  const complaints: string[] = [];
  let refused = 0;
  for (let at = 0; at < cases; at += 1) {
    // Refused calls never wait: without a turn of the event loop, the locks of this file would not be renewed.
    await new Promise((resolve) => setImmediate(resolve));
    const [name, [args, call]] = make.oneOf(Object.entries(entries));
    const given = args(make);
    try {
      await call(...given.map(({ value }) => value));
    } catch (error) {
      refused += 1;
      const complaint = complaintAbout(error);
      if (complaint !== undefined) {
        complaints.push(`case ${at}: ${name}(${given.map(({ label }) => label).join(', ')}): ${complaint}`);
      }
    }
    if (!(await isTidy())) {
      complaints.push(`case ${at}: ${name}(${given.map(({ label }) => label).join(', ')}): leaves a lock or a waiter`);
      break;
    }
  }
  return { complaints, refused };
}

it.each<[what: string, entries: Entries, cases: number]>([
  ['services', services, 2_000],
  ['decorators', decorators, 1_500],
  ['fences', fences, 600],
  ['modules', modules, 60],
])('nothing but our own errors comes out of %s', async (_what, entries, cases) => {
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown): void => void rejections.push(reason);
  process.on('unhandledRejection', onRejection);
  const { complaints, refused } = await fuzz(entries, cases);
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', onRejection);
  expect(complaints).toEqual([]);
  expect(rejections).toEqual([]);
  // Most of it is garbage.
  expect(refused).toBeGreaterThan(cases / 3);
});
