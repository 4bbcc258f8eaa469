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
interface Entry {
  readonly args: (make: GarbageMaker) => readonly Garbage[];
  readonly call: (...args: readonly unknown[]) => unknown;
}

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
  acquire: { args: lockCall, call: (...args) => release(send(locks, 'acquire', ...args)) },
  tryAcquire: { args: lockCall, call: (...args) => release(send(locks, 'tryAcquire', ...args)) },
  using: {
    args: (make) => [...lockCall(make), make.either(() => 1)],
    call: (...args) => send(locks, 'using', ...args),
  },
  'using without options': {
    args: (make) => [make.either('free'), make.any()],
    call: (...args) => send(locks, 'using', ...args),
  },
  inspect: { args: anything, call: (given) => send(locks, 'inspect', given) },
  assertHeld: {
    args: (make) => [make.either('held'), make.options(['mode', 'toString'])],
    call: (...args) => send(locks, 'assertHeld', ...args),
  },
  current: { args: anything, call: (given) => send(locks, 'current', given) },
  extend: { args: anything, call: (given) => send(held, 'extend', given) },
  'MultiLock.of': { args: anything, call: (given) => send(several, 'of', given) },
  createTestLocks: { args: (make) => [make.options(MODULE_OPTIONS)], call: (given) => void makeLocks(given) },
  createTestBench: {
    args: (make) => [make.options(MODULE_OPTIONS)],
    call: (given) => void invoke(createTestBench, given),
  },
  withLocks: {
    args: (make) => [make.either({}), make.either(locks), make.either('default')],
    call: (...args) => void invoke(withLocks, ...args),
  },
  bindLocks: {
    args: (make) => [make.either({}), make.either(locks), make.either('default')],
    call: (...args) => void invoke(bindLocks, ...args),
  },
  withMemoryLocks: {
    args: (make) => [make.either(Test.createTestingModule({})), make.options(['bench', 'clock', 'store'])],
    call: (...args) => void invoke(withMemoryLocks, ...args),
  },
  'timestamp()': {
    args: (make) => [make.options(['unit', 'scripts', 'retryCount', 'retryDelayMs', 'toString'])],
    call: (given) => void makeLocks({ store: invoke(timestamp, given) }),
  },
  'redisson()': {
    args: (make) => [make.options(['fencing', 'constructor'])],
    call: (given) => void makeLocks({ store: invoke(redisson, given) }),
  },
  'token()': { args: anything, call: (given) => void makeLocks({ store: invoke(token, given) }) },
  'a key function': { args: anything, call: (given) => release(makeLocks({ key: () => given }).acquire('free')) },
};

class Target {
  readonly locks = 1;
}

const decorators: Entries = {
  '@Locked': {
    args: (make) => [
      make.either('goods:<id>', ['goods:<id>', 'a']),
      make.options([...LOCK_OPTIONS, 'name', 'onBusy', 'onUnavailable']),
      make.any(),
    ],
    call: (given, options, argument) => callLocked(given, options, argument),
  },
  '@Locked without options': {
    args: (make) => [make.either('goods:<id>', '<0>', '<id.a.b>', ['<id>']), make.either('x', ['x', 'y'])],
    call: (given, argument) => callLocked(given, undefined, argument),
  },
  '@Locked with a function': { args: anything, call: (given) => callLocked(() => given, undefined, 1) },
  '@LockParam': { args: anything, call: (given) => invoke(LockParam, given) },
  '@LockParam of a method': {
    args: anything,
    call: (given) => invoke(invoke(LockParam, given), Target.prototype, 'buy', 0),
  },
  '@CurrentLock': { args: anything, call: (given) => invoke(CurrentLock, given) },
  InjectLockService: { args: anything, call: (given) => invoke(InjectLockService, given) },
  getLockServiceToken: { args: anything, call: (given) => invoke(getLockServiceToken, given) },
  'resource as a function': {
    args: (make) => [make.any(), make.any()],
    call: (...args) => invoke(resource, ...args),
  },
  'resource as a tag': { args: anything, call: (given) => resource`goods:${given as string}` },
};

const fences: Entries = {
  SqlFence: {
    args: (make) => [make.either('postgres'), make.options(['table', 'constructor'])],
    call: (...args) => void construct(SqlFence, ...args),
  },
  'SqlFence.open': {
    args: (make) => [make.either(() => [{ token: 5 }]), make.either('goods'), make.either(5)],
    call: (...args) => send(new SqlFence('mysql'), 'open', ...args),
  },
  'SqlFence.open of rows': {
    args: (make) => [make.either([{ token: make.any().value }])],
    call: (rows) => new SqlFence('sqlite').open(() => rows, 'goods', 5),
  },
  RedisFence: {
    args: (make) => [make.either(redis), make.either('goods'), make.options(['retentionMs', 'toString'])],
    call: (...args) => void construct(RedisFence, ...args),
  },
  'RedisFence.open': {
    args: anything,
    call: (given) => send(new RedisFence(redis, uniquePrefix()), 'open', given),
  },
  'RedisFence.write': {
    args: (make) => [
      make.either(5),
      make.either({ lua: 'return 1', keys: [uniquePrefix()], args: [make.any().value] }, { keys: [], argv: [] }),
    ],
    call: async (...args) => {
      const fence = new RedisFence(redis, uniquePrefix());
      await fence.open(5);
      await send(fence, 'write', ...args);
    },
  },
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
  'RedisLockTestingModule.forRoot': {
    args: (make) => [make.options(MODULE_OPTIONS.filter((name) => name !== 'clock'))],
    call: (given) => startApplication(() => RedisLockTestingModule.forRoot(given as object) as never),
  },
  'RedisLockModule.forRoot': {
    args: (make) => [make.options(MODULE_OPTIONS)],
    call: (given) => startApplication(() => RedisLockModule.forRoot(withMemory(given)) as never),
  },
  'RedisLockModule.forRootAsync': {
    args: (make) => [make.options(ASYNC_OPTIONS)],
    call: (given) => void RedisLockModule.forRootAsync(given as object),
  },
  'a factory of options': {
    args: (make) => [make.options(MODULE_OPTIONS)],
    // Nest awaits what a factory returns, and so reads it.
    call: (given) => {
      const useFactory = (): never => (canBeAwaited(given) ? withMemory(given) : undefined) as never;
      return startApplication(() => RedisLockModule.forRootAsync({ useFactory }) as never);
    },
  },
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
    const [name, { args, call }] = make.oneOf(Object.entries(entries));
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
