// The main of a forked process: one instance of the present library, or of a build that was kept. It uses only what
// both export.
import { Redis } from 'ioredis';
import type { RedisFence } from 'nestjs-redis-lock/fence';
import type { CreateLocksOptions, createLocks, Lock, LockInfo, LockOptions } from 'nestjs-redis-lock/standalone';
import { randomFrom } from '../../support/random.js';
import { silent } from '../../support/silent-logger.js';

/** A module with the exports of the library that the processes use. */
interface Build {
  readonly createLocks: typeof createLocks;
  readonly RedisFence: typeof RedisFence;
}

/** The options of a process. */
export interface WorkerOptions {
  /** What the log of grants calls it. */
  readonly name: string;
  /** The file of the build. Undefined: the present code. */
  readonly file?: string | undefined;
  /** The address of the data and of the log of grants. */
  readonly data: string;
  /** Whether timers fire. Without them, a waiter can only be woken by a message. */
  readonly timers: boolean;
  readonly options: CreateLocksOptions;
}

/** The queue of a lock in Redis. */
export interface Queue {
  readonly url: string;
  readonly key: string;
}

/** What a process has done in {@link WorkerCalls.contend}. */
interface Contended {
  /** By register: how often the process has incremented it. */
  readonly increments: Readonly<Record<string, number>>;
  /** What may not happen. */
  readonly faults: readonly string[];
}

const { name: ownName, file, data: url, timers, options } = JSON.parse(process.argv[2]) as WorkerOptions;
const { setTimeout: startTimer } = globalThis;

/** Returns a timer of Node that has not fired after this process has ended. */
const neverFires = ((...args: Parameters<typeof setTimeout>) => {
  const timer = startTimer(...args);
  clearTimeout(timer);
  return timer;
}) as typeof setTimeout;

/** From now on, no new timer fires. */
function stopTimers(): void {
  globalThis.setTimeout = neverFires;
}

if (!timers) stopTimers();

const build =
  file === undefined
    ? { ...(await import('nestjs-redis-lock/standalone')), ...(await import('nestjs-redis-lock/fence')) }
    : ((await import(file)) as Build);
const locks = build.createLocks({ unavailableAfterMs: Infinity, checks: 'off', logger: silent, ...options });
const data = new Redis(url);
const held = new Map<string, Lock>();
const lockOf = (resource: string): Lock => held.get(resource) as Lock;

/** A register, its copy, and who is inside. */
const keysOf = (resource: string) => ({
  value: `${resource}.value`,
  copy: `${resource}.copy`,
  inside: `${resource}.in`,
});

/** A task under a lock. Pushes what may not happen. */
type Visit = (resource: string, random: () => number, faults: string[]) => Promise<void>;

/** Reads the register and writes one more, behind the fence. */
async function increment(resource: string, token: number, faults: string[]): Promise<void> {
  const { value, copy, inside } = keysOf(resource);
  if ((await data.incr(inside)) !== 1) faults.push(`a writer of ${resource} was not alone`);
  const fence = new build.RedisFence(data, resource);
  await fence.open(token);
  const next = Number(await data.get(value)) + 1;
  const set = (key: string) => ({ lua: "redis.call('SET', KEYS[1], ARGV[1])", keys: [key], args: [next] });
  await fence.write(token, set(value));
  await fence.write(token, set(copy));
  await data.decr(inside);
}

const read: Visit = async (resource, _random, faults) => {
  const { value, copy } = keysOf(resource);
  await locks.using(resource, { mode: 'shared' }, async () => {
    const seen = await data.get(value);
    if ((await data.get(copy)) !== seen) faults.push(`a reader of ${resource} saw a writer`);
  });
};

const PERMITS = 2;

const permit: Visit = async (resource, _random, faults) => {
  const { inside } = keysOf(resource);
  await locks.using(resource, { permits: PERMITS }, async () => {
    if ((await data.incr(inside)) > PERMITS) faults.push(`${resource} had more holders than permits`);
    await data.decr(inside);
  });
};

/** What the parent may call. */
const calls = {
  stopTimers,
  /** Acquires a lock and keeps it. Returns its token. */
  async acquire(resource: string, given?: LockOptions): Promise<number> {
    const lock = await locks.acquire(resource, given);
    held.set(resource, lock);
    return lock.fencingToken;
  },
  /** Returns the token of the lock, which is released at once. Null if it is held. */
  async tried(resource: string, given?: LockOptions): Promise<number | null> {
    const lock = await locks.tryAcquire(resource, given);
    await lock?.release();
    return lock?.fencingToken ?? null;
  },
  /** Returns the message of the refusal. */
  refusal: (resource: string, given?: LockOptions): Promise<string> =>
    locks.acquire(resource, { waitMs: 0, ...given }).then(
      () => 'granted',
      (error: unknown) => (error as Error).message,
    ),
  release: (resource: string): Promise<boolean> => lockOf(resource).release(),
  /** Resolves once the lock that this process keeps is lost. */
  async untilLost(resource: string): Promise<string> {
    const { signal } = lockOf(resource);
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return (signal.reason as Error).name;
  },
  detach: (resource: string): Promise<string> => lockOf(resource).detach(),
  async resume(resource: string, ticket: string): Promise<number> {
    const lock = await locks.resume(resource, ticket);
    held.set(resource, lock);
    return lock.fencingToken;
  },
  extendTicket: (resource: string, ticket: string): Promise<void> => locks.extend(resource, ticket),
  releaseTicket: (resource: string, ticket: string): Promise<boolean> => locks.release(resource, ticket),
  /** Returns `done` if this call has run the work. */
  async once(resource: string, onceMs: number): Promise<string> {
    return (await locks.using(resource, { onceMs }, () => 'done')) ?? 'was done';
  },
  forceRelease: (resource: string): Promise<boolean> => locks.forceRelease(resource),
  inspect: (resource: string): Promise<LockInfo | null> => locks.inspect(resource),
  /** Acquires several locks at a time, and releases them. Returns their tokens. */
  all: (resources: readonly string[]): Promise<readonly number[]> =>
    locks.using(resources, ({ locks: each }) => each.map(({ fencingToken }) => fencingToken)),
  /**
   * Takes the lock that many times, and adds its name to the list `log`. Releases it when all other processes that have
   * turns left are in the queue, so that each release hands the lock off.
   */
  async relay(resource: string, turns: number, processes: number, queue: Queue, log: string): Promise<void> {
    const server = new Redis(queue.url);
    for (let turn = 0; turn < turns; turn += 1) {
      await locks.using(resource, async () => {
        const granted = await data.rpush(log, ownName);
        const waiting = Math.min(processes - 1, turns * processes - granted);
        while ((await server.zcard(queue.key)) < waiting);
      });
    }
  },
  /** Writes, reads and takes permits in a random order. */
  async contend(registers: readonly string[], permits: string, turns: number, seed: number): Promise<Contended> {
    const random = randomFrom(seed);
    const increments: Record<string, number> = {};
    const faults: string[] = [];
    const count = (resource: string) => (increments[resource] = (increments[resource] ?? 0) + 1);
    for (let turn = 0; turn < turns; turn += 1) {
      const resource = registers[Math.floor(random() * registers.length)];
      const kind = random();
      if (kind < 0.2) await read(resource, random, faults);
      else if (kind < 0.4) await permit(permits, random, faults);
      else if (kind < 0.5) {
        await locks.using(registers, async ({ locks: each }) => {
          for (const lock of each) await increment(lock.resource, lock.fencingToken, faults);
        });
        registers.forEach(count);
      } else {
        await locks.using(resource, ({ fencingToken }) => increment(resource, fencingToken, faults));
        count(resource);
      }
    }
    return { increments, faults };
  },
};

/** @internal */
export type WorkerCalls = typeof calls;

process.on('message', ({ id, name, args }: { id: number; name: keyof WorkerCalls; args: never[] }) => {
  const call: (...given: never[]) => unknown = calls[name];
  const answer = async (): Promise<unknown> => call(...args);
  answer().then(
    (value) => process.send?.({ id, value }),
    (error: unknown) => process.send?.({ id, error: String(error) }),
  );
});
process.on('disconnect', () => process.exit());
process.send?.({ id: 0 });
