// An independent client that locks as redlock does: its scripts, step by step, without code of this library.
// Takes a JSON object as its argument, increments a counter under the lock, and prints its result as JSON.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const { host, port, key, counter, leaseMs, rounds } = JSON.parse(process.argv[2]);
const redis = new Redis({ host, port, connectionName: key });
const ACQUIRE = `
  if redis.call("exists", KEYS[1]) == 1 then
    return 0
  end
  redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
  return 1`;
const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0`;
let refused = 0;
let lost = 0;

for (let round = 0; round < rounds; round += 1) {
  const value = randomBytes(16).toString('hex');
  while ((await redis.eval(ACQUIRE, 1, key, value, leaseMs)) === 0) {
    refused += 1;
    await sleep(2 + Math.random() * 6);
  }
  const read = Number(await redis.get(counter));
  await sleep(1);
  await redis.set(counter, read + 1);
  if ((await redis.eval(RELEASE, 1, key, value)) === 0) lost += 1;
  await sleep(Math.random() * 4);
}

console.log(JSON.stringify({ refused, lost }));
redis.disconnect();
