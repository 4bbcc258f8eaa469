// A million resources are locked once each. Only one fence key per hash tag may stay.
import { sleep } from '../clock.mjs';
import { startInstance } from '../entries/ours.mjs';
import { inTasks } from '../in-tasks.mjs';
import { connect } from '../library.mjs';
import { startRedis } from '../redis.mjs';
import { target } from '../targets.mjs';

const TASKS = 100;

export async function run({ quick }) {
  const redis = await startRedis();
  const admin = await connect(redis.url);
  const client = await connect(redis.url, { enableAutoPipelining: true });
  const instance = startInstance(client);

  const lockOnce = async (id) => (await instance.service.acquire(`goods:${id}`)).release();
  const look = async () => {
    await sleep(200);
    for (let i = 0; i < 3; i++) globalThis.gc();
    const usedMemory = Number(/^used_memory:(\d+)/m.exec(await admin.info('memory'))[1]);
    return { heap: process.memoryUsage().heapUsed, redis: usedMemory, keys: await admin.dbsize() };
  };

  const count = quick ? 50_000 : 1_000_000;
  // Warm-up, so that compiled code and buffers do not count as left behind by the locks.
  await inTasks(20_000, TASKS, (i) => lockOnce(count + i));
  const before = await look();
  const start = performance.now();
  await inTasks(count, TASKS, lockOnce);
  const seconds = (performance.now() - start) / 1000;
  const after = await look();
  await instance.close();
  client.disconnect();
  admin.disconnect();
  await redis.stop();

  const row = (name, { heap, redis: used, keys }) => ({
    name,
    kind: 'ours',
    figures: { heap: { median: heap / 2 ** 20 }, redis: { median: used / 2 ** 20 }, keys: { median: keys } },
  });
  return [
    {
      id: '9',
      title: `${count.toLocaleString('en')} distinct keys, each locked once`,
      method: `${TASKS} tasks, in ${seconds.toFixed(0)} s; heap after garbage collection. Back to the start: less than one byte a key is left.`,
      columns: [
        { figure: 'heap', title: 'heap, MiB', digits: 2 },
        { figure: 'redis', title: 'Redis memory, MiB', digits: 2 },
        { figure: 'keys', title: 'keys of locks in Redis', digits: 0 },
      ],
      rows: [row('before', before), row('after', after)],
      targets: [
        target('9', 'bytes of heap left per key', (after.heap - before.heap) / count),
        target('9', 'bytes of Redis memory left per key', (after.redis - before.redis) / count),
        target('9', 'keys left in Redis: the fence clock', after.keys),
      ],
    },
  ];
}
