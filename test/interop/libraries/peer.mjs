// A process that locks by another library. It takes commands, one a line, and ends when its input does.
//   node peer.mjs <library> <URLs, separated by commas> <lease in ms>
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { libraries } from './libraries.mjs';

const [library, list, leaseMs] = process.argv.slice(2);
const urls = list.split(',');
const clients = urls.map((url) => new Redis(url));
const take = await libraries[library]({ clients, urls, leaseMs: Number(leaseMs) });
const held = new Map();

/** Returns whether the lock was the library's own until now, as far as the library reports it. */
async function release(lock) {
  try {
    return (await lock.release()) !== false;
  } catch {
    return false;
  }
}

/** Increments the counter by reading and writing. Returns how often it was refused, and how often a lock was lost. */
async function count(key, counter, rounds) {
  const [redis] = clients;
  const done = { refused: 0, lost: 0 };
  for (let round = 0; round < Number(rounds); round += 1) {
    let lock = await take(key);
    for (; lock === null; lock = await take(key)) {
      done.refused += 1;
      await sleep(2 + Math.random() * 6);
    }
    const read = Number(await redis.get(counter));
    await sleep(1);
    await redis.set(counter, read + 1);
    if (!(await release(lock))) done.lost += 1;
    await sleep(Math.random() * 4);
  }
  return JSON.stringify(done);
}

const commands = {
  count,

  /** Tries to lock once. */
  async try(key) {
    const lock = await take(key);
    if (lock !== null) held.set(key, lock);
    return lock === null ? 'busy' : 'held';
  },

  async unlock(key) {
    const lock = held.get(key);
    held.delete(key);
    return (await release(lock)) ? 'released' : 'lost';
  },

  async setTtl(key, ttlMs) {
    await take.setTtl(key, Number(ttlMs));
    return 'done';
  },
};

/** Returns the line of the reply to this command. */
async function reply(line) {
  const [command, ...words] = line.split(' ');
  try {
    return `ok ${await commands[command](...words)}`;
  } catch (error) {
    return `error ${error.name}: ${error.message.replaceAll('\n', ' ')}`;
  }
}

const input = createInterface({ input: process.stdin });
input.on('line', (line) => void reply(line).then((text) => process.stdout.write(`${text}\n`)));
input.on('close', () => process.exit());
process.stdout.write('ready\n');
