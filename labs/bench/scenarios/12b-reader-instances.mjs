// A hundred instances with a thousand readers each wait behind a writer. Measures the longest script.
import { setTimeout as sleep } from 'node:timers/promises';
import { commandsSent } from '../commands.mjs';
import { startInstance } from '../entries/ours.mjs';
import { connect } from '../library.mjs';
import { Worker } from '../processes.mjs';
import { startRedis } from '../redis.mjs';
import { stated, target } from '../targets.mjs';

const PROCESSES = 4;
const KEY = 'goods:300';
/** The server records what took longer, in µs. */
const SLOW_MICROS = 500;
const LIMIT_MS = 60_000;

const instances = [];
let reading;
let served = 0;

/** The operations of the forked processes. */
export const ops = {
  async open(count, url) {
    for (let i = 0; i < count; i++) instances.push(startInstance(url));
    for (const { service } of instances) await (await service.acquire(`warm-up:${process.pid}`)).release();
  },
  read(readers) {
    const before = commandsSent();
    const one = async (service) => {
      await (await service.acquire(KEY, { mode: 'shared' })).release();
      served += 1;
    };
    const all = instances.flatMap(({ service }) => Array.from({ length: readers }, () => one(service)));
    reading = Promise.allSettled(all).then(() => commandsSent() - before);
  },
  async done() {
    const late = sleep(LIMIT_MS, undefined, { ref: false });
    const commands = await Promise.race([reading, late]);
    return { served, commands };
  },
  close: () => Promise.all(instances.map((instance) => instance.close())).then(() => undefined),
};

export async function run({ quick }) {
  const [perProcess, readers] = quick ? [5, 100] : [25, 1_000];
  const redis = await startRedis();
  const admin = await connect(redis.url);
  const workers = Array.from({ length: PROCESSES }, () => new Worker('12b-reader-instances.mjs'));
  const all = (op, ...args) => Promise.all(workers.map((worker) => worker.call(op, ...args)));
  await all('open', perProcess, redis.url);
  const writer = startInstance(redis.url);
  const lock = await writer.service.acquire(KEY);
  await all('read', readers);
  // Until the instances have their place in the queue.
  await sleep(quick ? 500 : 3_000);
  await admin.config('SET', 'slowlog-log-slower-than', SLOW_MICROS, 'slowlog-max-len', 100_000);
  const start = performance.now();
  await lock.release();
  const done = await all('done');
  const seconds = (performance.now() - start) / 1000;
  const longest = longestMs(await admin.slowlog('GET', -1));
  await all('close');
  await writer.close();
  await Promise.all(workers.map((worker) => worker.stop()));
  admin.disconnect();
  await redis.stop();

  const sum = (field) => done.reduce((total, each) => total + (each[field] ?? Infinity), 0);
  const count = perProcess * PROCESSES;
  const figures = { longest, seconds, served: sum('served'), commands: sum('commands') / (count * readers) };
  return [
    {
      id: '12b',
      title: `${count} instances with ${readers.toLocaleString('en')} readers each, behind a writer`,
      method:
        `${PROCESSES} processes. The longest script is by SLOWLOG, from the writer's release until all readers have been served. It counts ` +
        `the time on the clock, so that a server that has to wait for a processor shows in it. Scripts below ${SLOW_MICROS / 1000} ms count as 0.`,
      columns: [
        { figure: 'longest', title: 'longest script, ms', digits: 2 },
        { figure: 'seconds', title: 's until all are served', digits: 2 },
        { figure: 'served', title: 'served', digits: 0 },
        { figure: 'commands', title: 'commands a reader', digits: 3 },
      ],
      rows: [
        {
          name: 'nestjs-redis-lock, shared',
          kind: 'ours',
          figures: Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, { median: value }])),
        },
      ],
      targets: [
        target('12b', 'ms of the longest script', longest),
        stated('seconds until all are served', seconds, 's'),
        stated('readers served', figures.served),
        stated('commands a reader', figures.commands),
      ],
    },
  ];
}

function longestMs(log) {
  const scripts = log.filter(([, , , [command]]) => /^evalsha|^eval/i.test(command));
  return Math.max(0, ...scripts.map(([, , micros]) => micros / 1000));
}
