// A worker thread, or a worker of Node's cluster, with a module instance of its own. It increments a counter under a
// lock by reading and writing, and reports that it is done.
import { register } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';

// Hooks of the main thread do not reach a worker thread in all versions of Node.
register('./typescript-hooks.mjs', import.meta.url);
const { Redis } = await import('ioredis');
const { LockRuntime } = await import('../../lib/lock-runtime.ts');
const { silent } = await import('./silent-logger.ts');

const { url, prefix, counter, rounds } = workerData ?? JSON.parse(process.argv[2]);
const redis = new Redis(url);
const options = { redis: url, prefix, waitMs: 60_000, unavailableAfterMs: Infinity };
const runtime = LockRuntime.start(options, undefined, { logger: silent });
runtime.connect();
for (let round = 0; round < rounds; round += 1) {
  await runtime.service.using('counter:1', async () => {
    const read = Number(await redis.get(counter));
    await redis.set(counter, read + 1);
  });
}
await runtime.close();
redis.disconnect();
if (parentPort === null) process.send('done', () => process.disconnect());
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- this is not a window
else parentPort.postMessage('done');
