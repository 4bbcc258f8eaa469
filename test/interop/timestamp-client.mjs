// An independent client for timestamp locks, written from the steps of the algorithm without code of this library.
// Takes a JSON object as its argument, increments a counter under the lock, and prints its result as JSON.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

// With `forMs` it lets every lock run out for that time, and counts nothing. It takes up to `slowMs` to write.
const {
  host, port, key, counter, lease, unit, rounds, crashes, paceMs, forMs, slowMs = 0,
} = JSON.parse(process.argv[2]); // prettier-ignore
const redis = new Redis({ host, port });
const done = { added: 0, takenOver: 0, lost: 0, late: 0 };
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
      if (slowMs > 0) await sleep(between(0, slowMs));
      if ((await redis.getset(key, later)) === held) {
        done.takenOver += 1;
        return later;
      }
      done.lost += 1;
    } else {
      await sleep(paceMs ?? between(4, 8));
    }
  }
}

const endsAt = Date.now() + (forMs ?? 0);
while (Date.now() < endsAt) {
  const expiry = await take();
  // Long enough for others to take over before the key is gone.
  await redis.pexpire(key, lease * 10);
  await sleep(expiry - now());
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
    done.added += 1;
  } else {
    done.late += 1;
  }
  if (now() < expiry) await redis.del(key);
  await sleep(paceMs ?? between(0, 4));
}

console.log(JSON.stringify(done));
redis.disconnect();
