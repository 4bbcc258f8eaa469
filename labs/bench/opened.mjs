// A server on which every entry is open.
import { checkCounting } from './commands.mjs';
import { open } from './entries/index.mjs';
import { startRedis } from './redis.mjs';

/** Opens all entries in this process, on their own server. */
export async function openAll(entries, options) {
  const redis = await startRedis();
  await checkCounting(redis.url);
  const locks = new Map();
  for (const { name } of entries) locks.set(name, await open(name, redis.url, options));
  const close = async () => {
    for (const lock of locks.values()) await lock.close();
    redis.stop();
  };
  return { redis, lockOf: ({ name }) => locks.get(name), close };
}
