// A thousand module instances wait for one key. Measures the server's cost of a release and the memory of a waiter.
import { sleep } from '../clock.mjs';
import { serverCalls } from '../commands.mjs';
import { keyOf } from '../entries/bare.mjs';
import { startInstance } from '../entries/ours.mjs';
import { connect } from '../library.mjs';
import { median } from '../measure.mjs';
import { Worker } from '../processes.mjs';
import { reportProgress } from '../progress.mjs';
import { startRedis } from '../redis.mjs';
import { stated, target } from '../targets.mjs';

const PROCESSES = 4;
const KEY = 'goods:300';

const instances = [];
let waiting = [];
let granted = 0;
let failed;

/** The operations of the forked processes. */
export const ops = {
  async open(count, url) {
    // The start of 250 instances keeps a process busy for longer than an outage may last.
    for (let i = 0; i < count; i++) instances.push(startInstance(url, { unavailableAfterMs: Infinity }));
    // One after another, so that a thousand handshakes do not exceed their time limits.
    for (const { service } of instances) await (await service.acquire(`warm-up:${process.pid}`)).release();
  },
  /** Makes the first `count` instances wait. Each releases the lock as soon as it has it, and does not wait again. */
  wait(count) {
    granted = 0;
    waiting = instances.slice(0, count).map(async ({ service }) => {
      const lock = await service.acquire(KEY);
      granted += 1;
      await lock.release();
    });
    for (const each of waiting) each.catch((error) => (failed ??= error));
  },
  granted() {
    if (failed !== undefined) throw failed;
    return granted;
  },
  done: () => Promise.all(waiting).then(() => undefined),
  async memory() {
    globalThis.gc();
    await sleep(50);
    globalThis.gc();
    const { rss, heapUsed } = process.memoryUsage();
    return { rss, heapUsed };
  },
  async close() {
    await Promise.all(instances.map((instance) => instance.close()));
  },
};

export async function run({ quick }) {
  const redis = await startRedis();
  const admin = await connect(redis.url);
  const holder = startInstance(redis.url);
  const workers = Array.from({ length: PROCESSES }, () => new Worker('5b-instances.mjs'));
  const all = (op, ...args) => Promise.all(workers.map((worker) => worker.call(op, ...args)));
  const memory = async () => {
    // The server frees the buffers of idle clients after some seconds.
    await sleep(quick ? 1_000 : 5_000);
    const processes = await all('memory');
    const sum = (field) => processes.reduce((total, each) => total + each[field], 0);
    const usedMemory = Number(/^used_memory:(\d+)/m.exec(await admin.info('memory'))[1]);
    const queue = Number(await admin.memory('USAGE', `${keyOf(KEY)}|queue`, 'SAMPLES', 0));
    return { rss: sum('rss'), heapUsed: sum('heapUsed'), redis: usedMemory, queue };
  };

  const perProcess = quick ? 50 : 250;
  const most = perProcess * PROCESSES;
  const empty = await memory();
  await all('open', perProcess, redis.url);
  const idle = await memory();

  let waitingMemory;
  let repeats;
  /** Counts the server's calls while all wait: each instance repeats its request now and then. */
  const requestsWhileWaiting = async () => {
    await sleep(quick ? 1_500 : 3_000);
    const [before, start] = [await serverCalls(admin), performance.now()];
    await sleep(quick ? 2_250 : 9_000);
    const after = await serverCalls(admin);
    const seconds = (performance.now() - start) / 1000;
    return { scripts: (after.scripts - before.scripts) / seconds, all: (after.all - before.all) / seconds };
  };

  /** Counts the server's calls per handoff while `size` instances wait. */
  const handoffs = async (count, round) => {
    const before = await holder.service.acquire(KEY);
    await all('wait', count / PROCESSES);
    await sleep(quick ? 300 : 1_000);
    if (count === most && round < 0) {
      repeats = await requestsWhileWaiting();
      waitingMemory = await memory();
    }
    const callsBefore = await serverCalls(admin);
    const start = performance.now();
    await before.release();
    await all('done');
    const took = performance.now() - start;
    const after = await serverCalls(admin);
    // The holder's release is the first. Each waiter's release follows.
    const releases = (await all('granted')).reduce((total, each) => total + each, 1);
    return { perRelease: (after.all - callsBefore.all) / releases, ms: took / releases };
  };

  const sizes = [quick ? 8 : 20, quick ? 40 : 100, most];
  const rounds = quick ? 1 : 3;
  const figures = new Map(sizes.map((size) => [size, []]));
  for (let round = -1; round < rounds; round++) {
    reportProgress(0.2 + (0.8 * (round + 1)) / (rounds + 1));
    for (const size of sizes) {
      const figure = await handoffs(size, round);
      if (round >= 0) figures.get(size).push(figure);
    }
  }
  await holder.close();
  await all('close');
  await Promise.all(workers.map((worker) => worker.stop()));
  admin.disconnect();
  await redis.stop();

  const of = (size, field) => median(figures.get(size).map((each) => each[field]));
  const kib = (to, from, field) => (to[field] - from[field]) / most / 1024;
  const rows = sizes.map((size) => ({
    name: `${size} instances`,
    kind: 'ours',
    figures: Object.fromEntries(
      ['perRelease', 'ms'].map((field) => [
        field,
        { median: of(size, field), rounds: figures.get(size).map((each) => each[field]) },
      ]),
    ),
  }));
  return [
    {
      id: '5b',
      title: `${most.toLocaleString('en')} module instances waiting for one key`,
      method: `${PROCESSES} processes, every instance with connections of its own. Each instance takes the lock once and gives it back, until all had it; all calls of the server are counted, those inside of scripts and those of waiters that ask again included.`,
      columns: [
        { figure: 'perRelease', title: 'server calls a release', digits: 1 },
        { figure: 'ms', title: 'ms a handoff', digits: 3 },
      ],
      rows,
      targets: [
        target(
          '5b',
          'server calls a release, all ÷ few instances',
          of(most, 'perRelease') / of(sizes[0], 'perRelease'),
          `${most} ÷ ${sizes[0]}`,
        ),
        stated(`server calls a release, ${most} instances`, of(most, 'perRelease')),
        target('5b', 'requests a second of all waiters', repeats.scripts, `${most}`),
        stated('server calls a second of these requests, with those inside scripts', repeats.all),
        stated('Redis memory of an idle instance', kib(idle, empty, 'redis'), 'KiB'),
        stated('Redis memory of its place in the queue', waitingMemory.queue / most, 'bytes'),
        stated('heap of an idle instance', kib(idle, empty, 'heapUsed'), 'KiB'),
        stated('heap that waiting adds', kib(waitingMemory, idle, 'heapUsed'), 'KiB'),
        stated('resident memory of an idle instance', kib(idle, empty, 'rss'), 'KiB'),
      ],
    },
  ];
}
