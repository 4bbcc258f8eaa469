// npm run simulate -- --measure: measures what the requests of the simulation cost a real Redis, and how much memory a
// queue entry takes. Writes measured.json.
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { scripts } from '../../lib/stores/token/scripts.js';
import { startRedis } from '../../test/support/redis/index.js';

const CONNECTIONS = 32;
const LENGTH = 10_000;
const CHANNELS = 'simulated:';
const SECRET = 'A'.repeat(16);
const AN_HOUR_MS = 3_600_000;

const server = await startRedis({ local: true });
const clients = Array.from({ length: CONNECTIONS }, () => new Redis(server.url));
const [admin] = clients;
const subscriber = new Redis(server.url);
const digests: Record<string, string> = {};
for (const [name, { lua }] of Object.entries(scripts)) digests[name] = (await admin.script('LOAD', lua)) as string;

const entryOf = (nth: number): string => `waiter-8c1f7c1e-${nth}:1/${SECRET}`;
const keysOf = (key: string): string[] => [key, '{simulated}|fence', `${key}|queue`];

function acquire(client: Redis, key: string, entry: string): Promise<unknown> {
  const deadline = String((Date.now() + AN_HOUR_MS) * 1_000);
  return client.evalsha(digests['acquire'], 3, ...keysOf(key), entry, 30_000, deadline, 1, 1, 1_200, CHANNELS);
}
function release(client: Redis, key: string, entry: string): Promise<unknown> {
  return client.evalsha(digests['release'], 3, ...keysOf(key), entry, 0, 1, 1_200, CHANNELS);
}

/** Returns the time that the server's main thread has worked, in microseconds. */
async function worked(): Promise<number> {
  const info = await admin.info('cpu');
  const seconds = info.matchAll(/^used_cpu_(?:sys|user)_main_thread:([\d.]+)/gm);
  return [...seconds].reduce((sum, [, each]) => sum + Number(each), 0) * 1e6;
}

/** Sends `count` requests over each connection, one after another. Returns the server's time for each, in µs. */
async function costOf(count: number, send: (client: Redis, nth: number) => Promise<unknown>): Promise<number> {
  const before = await worked();
  const loop = async (client: Redis, first: number): Promise<void> => {
    for (let i = 0; i < count; i += 1) await send(client, first + i);
  };
  await Promise.all(clients.map((client, i) => loop(client, i * count)));
  return ((await worked()) - before) / (count * clients.length);
}

async function fill(key: string, length: number, suffix = ''): Promise<void> {
  const pairs = Array.from({ length }, (_, i) => [String(i + 1), entryOf(i) + suffix]).flat();
  await admin.zadd(`${key}|queue`, ...pairs);
}

const channels = Array.from({ length: LENGTH }, (_, i) => `${CHANNELS}waiter-8c1f7c1e-${i}`);
await subscriber.subscribe(...channels);
const key = '{simulated}:1';
await acquire(admin, key, entryOf(LENGTH));
await fill(key, LENGTH);
const memory = Number(await admin.memory('USAGE', `${key}|queue`, 'SAMPLES', '0')) / LENGTH;
const repeatUs = await costOf(300, (client, nth) => acquire(client, key, entryOf(nth % LENGTH)));
const joinUs = await costOf(300, (client, nth) => acquire(client, key, entryOf(LENGTH + 1 + nth)));
await admin.del(key, `${key}|queue`);
const acquireUs = await costOf(300, (client, nth) => acquire(client, `${key}-${nth}`, entryOf(nth)));
const extendUs = await costOf(300, (client, nth) =>
  client.evalsha(digests['extend'], 1, `${key}-${nth}`, entryOf(nth), 30_000),
);
const releaseUs = await costOf(300, (client, nth) => release(client, `${key}-${nth}`, entryOf(nth)));
// Each connection hands a lock of its own on along its queue.
for (let i = 0; i < CONNECTIONS; i += 1) {
  await fill(`${key}-${i}`, 301);
  await acquire(admin, `${key}-${i}`, entryOf(LENGTH));
  await release(admin, `${key}-${i}`, entryOf(LENGTH));
}
const handoffUs = await costOf(300, (client, nth) =>
  release(client, `${key}-${Math.floor(nth / 300)}`, entryOf(nth % 300)),
);
// One release hands a lock to 64 readers.
for (let i = 0; i < CONNECTIONS * 20; i += 1) {
  await admin.set(`${key}-r${i}`, `${entryOf(LENGTH)} 1`, 'PX', 600_000);
  await fill(`${key}-r${i}`, 64, ' *');
  await admin.pexpire(`${key}-r${i}|queue`, 60_000);
}
const sharersUs = await costOf(20, (client, nth) => release(client, `${key}-r${nth}`, entryOf(LENGTH)));

const round = (value: number): number => Math.round(value * 10) / 10;
const sharerUs = (sharersUs - releaseUs) / 64;
const costs = { acquireUs, joinUs, repeatUs, extendUs, releaseUs, handoffUs, sharerUs };
const rounded = Object.fromEntries(Object.entries(costs).map(([name, us]) => [name, round(us)]));
const [{ model: processor }] = cpus();
const date = new Date().toISOString().slice(0, 10);
const measured = {
  date,
  processor,
  server: server.description.replace(/ \(.*/, ''),
  entryBytes: Math.round(memory),
  ...rounded,
};
writeFileSync(fileURLToPath(new URL('measured.json', import.meta.url)), `${JSON.stringify(measured, undefined, 2)}\n`);
process.stdout.write(`${JSON.stringify(measured, undefined, 2)}\n`);
for (const client of [...clients, subscriber]) client.disconnect();
await server.stop();
