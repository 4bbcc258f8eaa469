// Finds a Redis server for the processes that start one by its path, as the tests and npm start find theirs.
// `node test/support/find-redis.mjs` names it, or says why there is none, before a script builds anything.
import { pathToFileURL } from 'node:url';

/** Sets REDIS_SERVER_BIN, and the path of its libraries if it was unpacked. Returns which server it is. */
export async function findRedis() {
  await import('./typescript-hooks.mjs');
  const { resolveRedis } = await import('./redis/index.ts');
  const { binary, description } = await resolveRedis({ local: true });
  process.env.REDIS_SERVER_BIN = binary.path;
  if (binary.env.LD_LIBRARY_PATH !== undefined) process.env.LD_LIBRARY_PATH = binary.env.LD_LIBRARY_PATH;
  return description;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    console.log(`Redis: ${await findRedis()}`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
