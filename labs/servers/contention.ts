// Processes compete for locks of every store on one server, or through a proxy. Prints what passed, what failed, and
// the lines that the module logged, as one line of JSON.
//   node --import ./test/support/typescript-hooks.mjs labs/servers/contention.ts URL [URL of the server behind it]
import { fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { redisson } from 'nestjs-redis-lock/redisson';
import { createLocks, type Locks, type StoreFactory, token } from 'nestjs-redis-lock/standalone';
import { timestamp } from 'nestjs-redis-lock/timestamp';

const PROCESSES = 3;
const CALLERS = 8;
const VISITS = 6;
const LIMIT_MS = 30_000;

/** The stores on one server, and whether they give fencing tokens. */
const STORES: Readonly<Record<string, { readonly store: () => StoreFactory; readonly hasTokens: boolean }>> = {
  'token()': { store: () => token(), hasTokens: true },
  'redisson({ fencing: true })': { store: () => redisson({ fencing: true }), hasTokens: true },
  'timestamp()': { store: () => timestamp(), hasTokens: false },
  'timestamp({ scripts: false })': { store: () => timestamp({ scripts: false }), hasTokens: false },
};

/** Where the locks are, and where the visits are counted. */
interface Place {
  readonly url: string;
  readonly behind: string;
  readonly prefix: string;
}

/** Leaves out what differs from run to run and says nothing about a server: its address, and times. */
const withoutPlace = (text: string): string =>
  text.replace(/ ?Redis is at \S+$| at redis:\S+(?=,)/g, '').replace(/\b\d+ ms\b/g, '… ms');

/** Lines about a lock are about what the scenario does. */
const isAboutServer = (line: string): boolean => !line.startsWith('The lock on ');

function open({ url, prefix }: Place, store: string, said: Set<string>): Locks {
  const warn = (line: string): void => {
    if (isAboutServer(line)) said.add(withoutPlace(line));
  };
  return createLocks({
    redis: url,
    prefix,
    store: STORES[store].store(),
    waitMs: LIMIT_MS,
    shutdownGraceMs: 0,
    logger: { log: () => undefined, warn, error: warn },
  });
}

/** What one process does: each of its callers adds one to a counter, in two steps, under the lock. */
async function visit(place: Place & { store: string }): Promise<void> {
  const said = new Set<string>();
  const locks = open(place, place.store, said);
  const counts = new Redis(place.behind);
  const one = async (): Promise<void> => {
    for (let i = 0; i < VISITS; i += 1) {
      await locks.using('goods:300', async (lock) => {
        const before = Number(await counts.get(`${place.prefix}visits`));
        await counts.set(`${place.prefix}visits`, before + 1);
        if (STORES[place.store].hasTokens) await counts.rpush(`${place.prefix}tokens`, lock.fencingToken);
      });
    }
  };
  const results = await Promise.allSettled(Array.from({ length: CALLERS }, one));
  const failed = results.find((result) => result.status === 'rejected');
  process.send?.({ error: failed && (failed.reason as Error).message, said: [...said] });
  counts.disconnect();
  await locks.close();
  process.disconnect?.();
}

function inProcess(place: Place, store: string): Promise<{ error?: string; said: string[] }> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify({ ...place, store })]);
  return new Promise((resolve) => {
    child.once('message', resolve);
    child.once('exit', (code) => resolve({ error: `the process ended with ${code}`, said: [] }));
  });
}

/** All processes compete. No visit is lost, and tokens rise. */
async function contend(place: Place, store: string, said: Set<string>): Promise<void> {
  const all = await Promise.all(Array.from({ length: PROCESSES }, () => inProcess(place, store)));
  for (const line of all.flatMap((one) => one.said)) said.add(line);
  const error = all.find((one) => one.error !== undefined)?.error;
  if (error !== undefined) throw new Error(error);
  const counts = new Redis(place.behind);
  try {
    const visits = Number(await counts.get(`${place.prefix}visits`));
    if (visits !== PROCESSES * CALLERS * VISITS) throw new Error(`only ${visits} visits were alone`);
    const tokens = (await counts.lrange(`${place.prefix}tokens`, 0, -1)).map(Number);
    if (STORES[store].hasTokens && tokens.length !== visits) throw new Error('visits without a token');
    if (tokens.some((one, i) => i > 0 && one <= tokens[i - 1])) throw new Error('tokens did not rise');
  } finally {
    counts.disconnect();
  }
}

/** What `token()` can do besides. */
const OPERATIONS: Readonly<Record<string, (one: Locks, other: Locks) => Promise<void>>> = {
  'acquire, extend, inspect, release': async (one, other) => {
    const lock = await one.acquire('goods:1');
    await lock.extend();
    if ((await other.inspect('goods:1')) === null) throw new Error('nobody holds it');
    if (!(await lock.release())) throw new Error('it was not held');
  },
  'locks of one tick': async (one, other) => {
    const ids = Array.from({ length: 8 }, (_, i) => `goods:${i}`);
    const held = await Promise.all(ids.map((id) => one.acquire(id)));
    if ((await other.tryAcquire(ids[7])) !== null) throw new Error('two have the lock');
    await Promise.all(held.map((lock) => lock.release()));
    await other.using(ids, () => undefined);
  },
  'readers and permits': async (one, other) => {
    const readers = await Promise.all([one, other].map((by) => by.acquire('goods:1', { mode: 'shared' })));
    const writer = one.acquire('goods:1');
    for (const reader of readers) await reader.release();
    await (await writer).release();
    const two = await Promise.all([one, other].map((by) => by.acquire('goods:2', { permits: 2 })));
    if ((await one.tryAcquire('goods:2', { permits: 2 })) !== null) throw new Error('three of two permits');
    for (const permit of two) await permit.release();
  },
  list: async (one, other) => {
    const lock = await one.acquire('goods:1');
    const found = [];
    for await (const { resource } of other.list()) found.push(resource);
    await lock.release();
    if (!found.includes('goods:1')) throw new Error(`found ${found.length} locks`);
  },
  'release by force': async (one, other) => {
    await one.acquire('goods:1');
    if (!(await other.forceRelease('goods:1'))) throw new Error('nobody held it');
  },
  'handoff by messages': async (one, other) => {
    const lock = await one.acquire('goods:1');
    const waiting = other.acquire('goods:1');
    // Once it has asked, it has tried to subscribe.
    await other.ping();
    await lock.release();
    await (await waiting).release();
    const { handoff, degraded } = await other.ping();
    if (handoff !== 'subscription') throw new Error(degraded);
  },
};

async function main(url: string, behind = url): Promise<void> {
  const said = new Set<string>();
  const failed: { name: string; error: string }[] = [];
  let passed = 0;
  const step = async (name: string, run: () => Promise<void>): Promise<void> => {
    const late = sleep(LIMIT_MS * 2, undefined, { ref: false }).then(() => {
      throw new Error(`not done within ${LIMIT_MS * 2} ms`);
    });
    try {
      await Promise.race([run(), late]);
      passed += 1;
    } catch (error) {
      failed.push({ name, error: withoutPlace((error as Error).message) });
    }
    process.stderr.write('.');
  };
  const place = (n: number): Place => ({ url, behind, prefix: `servers-${process.pid}-${n}:` });
  for (const [n, store] of Object.keys(STORES).entries()) {
    await step(`${store}, ${PROCESSES} processes compete`, () => contend(place(n), store, said));
  }
  const [one, other] = [1, 2].map(() => open(place(9), 'token()', said));
  for (const [name, run] of Object.entries(OPERATIONS)) await step(name, () => run(one, other));
  await Promise.all([one.close(), other.close()]);
  process.stdout.write(`${JSON.stringify({ passed, failed, said: [...said] })}\n`);
}

const [first, second] = process.argv.slice(2);
if (first.startsWith('{')) await visit(JSON.parse(first));
else await main(first, second);
