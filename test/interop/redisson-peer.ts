// The main of a process that takes commands about locks on its stdin, as `redisson/src/main/java/Peer.java` does.
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import type { Lock } from '../../lib/engine/lock.js';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { redisson } from '../../lib/stores/redisson/redisson.js';
import { silent } from '../support/silent-logger.js';

const [addresses, ttlMs] = process.argv.slice(2);
const nodes = addresses.split(',');
const [url] = nodes;
const inCluster = nodes.length > 1;

const client = inCluster ? new Cluster(nodes) : new Redis(url);
const common = {
  redis: inCluster ? { nodes } : url,
  ttlMs: Number(ttlMs),
  waitMs: Infinity,
  key: (resource: string) => resource,
};
const internals = { logger: silent };
const plain = LockRuntime.start({ ...common, store: redisson() }, undefined, internals);
const fenced = LockRuntime.start({ ...common, store: redisson({ fencing: true }) }, undefined, internals);
for (const runtime of [plain, fenced]) runtime.connect();
const held = new Map<string, Lock>();

/** Increments a counter by reading, pausing and writing, which loses updates without a lock. */
async function increment(counter: string): Promise<void> {
  const read = Number(await client.get(counter));
  await sleep(1);
  await client.set(counter, read + 1);
}

/** The commands. Each takes the name of a lock and further words. */
const commands: Record<string, (name: string, ...rest: string[]) => Promise<number | void>> = {
  lock: async (name) => void held.set(name, await plain.service.acquire(name)),
  lockFor: async (name, leaseMs) => {
    held.set(name, await plain.service.acquire(name, { ttlMs: Number(leaseMs), maxHoldMs: Number(leaseMs) }));
  },
  lockKept: async (name, minHoldMs) => {
    held.set(name, await plain.service.acquire(name, { minHoldMs: Number(minHoldMs) }));
  },
  lockFenced: async (name) => {
    const lock = await fenced.service.acquire(name);
    held.set(name, lock);
    return lock.fencingToken;
  },
  unlock: async (name) => void (await held.get(name)?.release()),
  count: async (name, counter, times) => {
    for (let i = 0; i < Number(times); i += 1) await plain.service.using(name, () => increment(counter));
  },
};

function reply(line: string): void {
  process.stdout.write(`${line}\n`);
}

const input = createInterface({ input: process.stdin });
input.on('line', (line) => {
  const [command, name, ...rest] = line.split(' ');
  commands[command](name, ...rest).then(
    (value) => reply(`ok ${value ?? ''}`),
    (error: unknown) => reply(`error ${String(error)}`),
  );
});
input.on('close', () => process.exit());
reply('ready');
