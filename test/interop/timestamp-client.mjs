// An independent client for timestamp locks, written from the steps of the algorithm without code of this library.
// Takes a JSON object as its argument, increments a counter under the lock, and prints its result as JSON.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const { host, port, key, counter, lease, unit, rounds, crashes, paceMs } = JSON.parse(process.argv[2]);
const redis = new Redis({ host, port });
let added = 0;
const now = () => Math.floor(unit === 's' ? Date.now() / 1000 : Date.now());
const between = (least, most) => least + Math.random() * (most - least);

async function take() {
  for (;;) {
    const expiry = now() + lease + 1;
    if ((await redis.setnx(key, expiry)) === 1) return expiry;
    const held = await redis.get(key);
    if (held === null) continue;
    if (now() > Number(held)) {
      const later = now() + lease + 1;
      if ((await redis.getset(key, later)) === held) return later;
    } else {
      await sleep(paceMs ?? between(4, 8));
    }
  }
}

for (let turn = 0; turn < rounds; turn += 1) {
  const expiry = await take();
  // A crash here leaves a key without a TTL, which only its value ends.
  if (turn % Math.ceil(rounds / (crashes + 1)) === 1 && turn > 1) continue;
  await (unit === 's' ? redis.expire(key, lease + 1) : redis.pexpire(key, lease + 1));
  const read = Number(await redis.get(counter));
  await sleep(between(1, 4));
  if (now() < expiry) {
    await redis.set(counter, read + 1);
    added += 1;
  }
  if (now() < expiry) await redis.del(key);
  await sleep(paceMs ?? between(0, 4));
}

console.log(JSON.stringify({ added }));
redis.disconnect();
