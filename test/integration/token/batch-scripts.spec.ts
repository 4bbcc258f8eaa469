import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { scripts } from '../../../lib/stores/token/scripts.js';
import { randomFrom } from '../../support/random.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { StoppedServers } from '../../support/server-clock/stopped-servers.js';

// Tokens, leases and prompts depend on the server's time, so that stands still while two scripts are compared.
needWallClocks();

let servers: StoppedServers;
let redis: Redis;
let subscriber: Redis;

beforeAll(async () => {
  servers = await StoppedServers.start();
  redis = servers.admin;
  subscriber = new Redis(servers.url);
  // The third instance is dead: a handoff passes it over.
  for (const space of ['one', 'many']) await subscriber.subscribe(`${space}:channel:a`, `${space}:channel:b`);
});
afterAll(async () => {
  subscriber.disconnect();
  await servers.stop();
});

type Space = 'one' | 'many';

interface Request {
  readonly key: string;
  readonly attempt: number;
}

/** What the requests of a batch have in common. */
interface Shared {
  readonly instance: string;
  readonly mode: '' | ' *' | ' 2' | ' 3';
  readonly willWait: '0' | '1';
  readonly verb: 'acquire' | 'release';
}

const LEASE_MS = '60000';
const NEVER = '9999999999999999';
const rest = ({ mode }: Shared): string => `/secret${mode}`;
const lockAndQueue = (space: Space, key: string): string[] => [`${space}:${key}`, `${space}:${key}|queue`];
const fence = (space: Space): string => `${space}|fence`;

/** Runs the scripts for one lock, one after the other. */
async function runSingles(requests: readonly Request[], shared: Shared): Promise<unknown[]> {
  const replies: unknown[] = [];
  for (const { key, attempt } of requests) {
    const [lock, queue] = lockAndQueue('one', key);
    const entry = `${shared.instance}:${attempt}${rest(shared)}`;
    const args =
      shared.verb === 'acquire'
        ? [entry, LEASE_MS, NEVER, '3', shared.willWait, '3000', 'one:channel:']
        : [entry, '0', '3', '3000', 'one:channel:'];
    const reply = redis.eval(scripts[shared.verb].lua, 3, lock, fence('one'), queue, ...args);
    replies.push(await reply.catch((error: Error) => error));
  }
  return replies;
}

/** Runs the script for several locks. */
async function runTogether(requests: readonly Request[], shared: Shared): Promise<unknown[]> {
  const keys = [fence('many'), ...requests.flatMap(({ key }) => lockAndQueue('many', key))];
  const entries = [`${shared.instance}:`, requests.map(({ attempt }) => attempt).join(' '), rest(shared)];
  const args =
    shared.verb === 'acquire'
      ? [...entries, LEASE_MS, NEVER, '3', shared.willWait, '3000', 'many:channel:']
      : [...entries, '3', '3000', 'many:channel:'];
  const { lua } = scripts[`${shared.verb}Batch`];
  const reply = await redis.eval(lua, keys.length, ...keys, ...args);
  const ofEach = shared.verb === 'acquire' ? (reply as unknown[]).slice(3) : reply;
  return Array.isArray(ofEach) && ofEach.length > 0 ? ofEach : requests.map(() => 1);
}

/** Returns what a reply says, without tokens and times. */
function meaningOf(reply: unknown): unknown {
  if (reply instanceof Error) return /WRONGTYPE/.exec(reply.message)?.[0] ?? reply.message;
  if (!Array.isArray(reply)) return Number(reply) === 0 ? 'not held' : 'done';
  const [status, , , holder, count] = reply as unknown[];
  if (status === 1 || status === 2) return 'done';
  return [status, typeof holder === 'string' ? holder.split(' ')[0] : holder, count];
}

interface State {
  readonly key: string;
  readonly holder: string | undefined;
  readonly places: readonly (string | number)[];
  /** How long the lock and the queue live. */
  readonly lives: readonly number[];
}

/** Returns who holds the locks of a space and who waits for them, without tokens. */
async function stateOf(space: Space, keys: readonly string[]): Promise<State[]> {
  return Promise.all(
    keys.map(async (key) => {
      const [lock, queue] = lockAndQueue(space, key);
      const [value, entries] = await Promise.all([
        redis.get(lock).catch(() => 'a list'),
        redis.zrange(queue, '0', '-1', 'WITHSCORES'),
      ]);
      const places = entries.map((part, i) => (i % 2 === 0 ? part : Math.sign(Number(part))));
      const lives = await Promise.all([redis.pttl(lock), redis.pttl(queue)]);
      return { key, holder: value?.split(' ')[0], places, lives };
    }),
  );
}

/** Returns how often Redis has run each command since the last call of this. */
async function commandsRun(): Promise<Readonly<Record<string, number>>> {
  const stats = await redis.info('commandstats');
  await redis.config('RESETSTAT');
  return Object.fromEntries([...stats.matchAll(/cmdstat_(\w+):calls=(\d+)/g)].map(([, name, n]) => [name, Number(n)]));
}

describe('the scripts for several locks', () => {
  it('check with one command if all locks are free, with two if all can be freed at once', async () => {
    await redis.flushall();
    const requests = Array.from({ length: 64 }, (_, i) => ({ key: `k${i}`, attempt: i }));
    const shared = { instance: 'a', mode: '', willWait: '0' } as const;
    await commandsRun();
    expect(await runTogether(requests, { ...shared, verb: 'acquire' })).toEqual(requests.map(() => 1));
    expect(await commandsRun()).toMatchObject({ exists: 1, set: 65 });
    expect((await commandsRun()).get).toBeUndefined();
    expect(await runTogether(requests, { ...shared, verb: 'release' })).toEqual(requests.map(() => 1));
    expect(await commandsRun()).toMatchObject({ mget: 1, exists: 1, del: 1 });
    expect(await redis.keys('many:*')).toEqual([]);
  });

  it('give a lock that is named twice to the first of the two', async () => {
    await redis.flushall();
    const requests = [1, 2, 3].map((attempt) => ({ key: `k${attempt % 2}`, attempt }));
    const replies = await runTogether(requests, { instance: 'a', mode: '', willWait: '1', verb: 'acquire' });
    expect(replies.map((reply) => (reply as unknown[])[0])).toEqual([2, 2, 3]);
    expect(replies.map(meaningOf)).toEqual(['done', 'done', [3, 'a:1/secret', 0]]);
  });

  it('hand their locks to 64 sharers at most in all, but for the first of each, and say which have more', async () => {
    await redis.flushall();
    const shared: Shared = { instance: 'a', mode: '', willWait: '0', verb: 'release' };
    const waiting = [70, 300, 1, 2];
    for (const [i, count] of waiting.entries()) {
      const [lock, queue] = lockAndQueue('many', `k${i}`);
      await redis.set(lock, `a:${i}/secret 1`, 'PX', 60_000);
      for (let n = 1; n <= count; n++) await redis.zadd(queue, n, `b:${i}000${n}/secret *`);
    }
    const requests = waiting.map((_, i) => ({ key: `k${i}`, attempt: i }));
    expect(await runTogether(requests, shared)).toEqual([3, 3, 1, 3]);
    const sharers = await Promise.all(
      waiting.map((_, i) => redis.zcount(lockAndQueue('many', `k${i}`)[1], '-inf', '(0')),
    );
    expect(sharers).toEqual([64, 1, 1, 1]);
  });

  it('say which locks have more sharers than they could hand them to, if a dead holder is found', async () => {
    const waiting = [70, 1, 2];
    for (const mode of ['', ' *'] as const) {
      await redis.flushall();
      const shared: Shared = { instance: 'a', mode, willWait: '0', verb: 'acquire' };
      for (const [i, count] of waiting.entries()) {
        for (let n = 1; n <= count; n++)
          await redis.zadd(lockAndQueue('many', `k${i}`)[1], n, `b:${i}000${n}/secret *`);
      }
      const requests = waiting.map((_, i) => ({ key: `k${i}`, attempt: i }));
      const replies = (await runTogether(requests, shared)) as unknown[][];
      // The only waiter of the second lock is granted, and a reader shares the lock with it.
      expect(replies.map(([status, ...other]) => [status, other[status === 1 ? 3 : 4]])).toEqual([
        [0, 1],
        [mode === '' ? 0 : 1, 0],
        [0, 1],
      ]);
    }
  });

  it.each([1, 2, 3, 4])('do what those for one lock do, one after the other (seed %i)', async (seed) => {
    await redis.flushall();
    const random = randomFrom(seed);
    const clock = servers.clock();
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
    const keys = ['k0', 'k1', 'k2', 'k3', 'k4', 'k5'];
    for (const space of ['one', 'many']) await redis.rpush(`${space}:k5`, 'a list');
    let attempts = 0;
    const made: Request[] = [];
    for (let step = 0; step < 150; step++) {
      const shared: Shared = {
        instance: pick(['a', 'b', 'c']),
        mode: pick(['', '', ' *', ' 2', ' 3']),
        willWait: pick(['0', '1']),
        verb: pick(['acquire', 'release']),
      };
      const repeats = (): Request | undefined =>
        made.length > 0 && random() < 0.6 ? pick(made.slice(-30)) : undefined;
      const picked = Array.from({ length: 2 + Math.floor(random() * 6) }, () => {
        return repeats() ?? { key: pick(keys), attempt: ++attempts };
      });
      // No engine releases a lock twice at a time. The script for several would say twice that it was held.
      const requests = [...new Set(picked)];
      made.push(...requests);
      const [alone, together] = [await runSingles(requests, shared), await runTogether(requests, shared)];
      expect(together.map(meaningOf)).toEqual(alone.map(meaningOf));
      expect(await stateOf('many', keys)).toEqual(await stateOf('one', keys));
      clock.jump(Math.floor(random() * 200));
    }
  });
});
