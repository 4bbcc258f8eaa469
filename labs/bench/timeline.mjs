// npm run bench:timeline: the steps of one handoff between two processes in strict order, from the release to the first
// line of work, beside the physical floor. Writes results/timeline.json and README.md. With `--quick` it
// writes nothing.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { sleep } from './clock.mjs';
import { faultsOfTimeline } from './faults.cjs';
import { pretty } from './format.mjs';
import { connect, LockRuntime, logger } from './library.mjs';
import { Worker } from './processes.mjs';
import { startRedis } from './redis.mjs';
import { TTL_MS } from './settings.mjs';

const KEY = 'goods:300';
const CHANNEL = 'timeline:floor';
const WORK_MS = 1;
const TASKS = 2;

/** Microseconds since 1970, the same in all processes of a machine, and the scale of the server's TIME. */
const nowUs = () => (performance.timeOrigin + performance.now()) * 1_000;

let client;
let runtime;
let listener;
/** When the last bytes were written to the server, and when the last message arrived. */
const last = { written: 0, received: 0 };
const records = [];
let floor = [];

/** The operations of the forked processes. */
export const ops = {
  async open(url) {
    client = await connect(url);
    watch(client, 'write');
    const { duplicate } = client;
    client.duplicate = (...args) => {
      const subscriber = duplicate.apply(client, args);
      subscriber.on('connect', () => watch(subscriber, 'data'));
      return subscriber;
    };
    const options = { redis: client, ttlMs: TTL_MS, waitMs: Infinity, shutdownGraceMs: 0, fairness: 'strict' };
    runtime = LockRuntime.start(options, undefined, { logger });
    runtime.connect();
    listener = await connect(url);
    listener.on('message', (_channel, sentAt) => floor.push(nowUs() - Number(sentAt)));
    await listener.subscribe(CHANNEL);
  },
  /** Acquires and releases the lock for that long, from several tasks. */
  async contend(ms) {
    records.length = 0;
    const end = performance.now() + ms;
    const task = async () => {
      while (performance.now() < end) {
        const lock = await runtime.service.acquire(KEY);
        const record = { token: lock.fencingToken, startedAt: nowUs(), receivedAt: last.received };
        await sleep(WORK_MS);
        last.written = 0;
        record.releasedAt = nowUs();
        const released = lock.release();
        await released;
        record.writtenAt = last.written;
        record.repliedAt = nowUs();
        records.push(record);
      }
    };
    await Promise.all(Array.from({ length: TASKS }, task));
    return records;
  },
  /** Returns the times of empty scripts, one after another, in microseconds. */
  async roundTrips(count) {
    const times = [];
    for (let i = 0; i < count; i++) {
      await sleep(WORK_MS);
      const sentAt = nowUs();
      await client.eval('return 1', 0);
      times.push(nowUs() - sentAt);
    }
    return times;
  },
  async publish(count) {
    for (let i = 0; i < count; i++) {
      await sleep(WORK_MS);
      await client.publish(CHANNEL, String(nowUs()));
    }
  },
  received() {
    const times = floor;
    floor = [];
    return times;
  },
  async close() {
    await runtime.close();
    client.disconnect();
    listener.disconnect();
  },
};

/** Notes when a connection is written to, or has received something. */
function watch(connection, what) {
  const { stream } = connection;
  if (what === 'data') {
    stream.prependListener('data', () => (last.received = nowUs()));
    return;
  }
  const { write } = stream;
  stream.write = (...args) => {
    // The first write after the release is its request.
    last.written ||= nowUs();
    return write.apply(stream, args);
  };
}

const QUICK = process.argv.includes('--quick');
const MS = QUICK ? 2_000 : 10_000;

async function main() {
  const redis = await startRedis();
  const workers = [1, 2].map(() => new Worker('../timeline.mjs'));
  const all = (op, ...args) => Promise.all(workers.map((worker) => worker.call(op, ...args)));
  await all('open', redis.url);
  // Warms up.
  await all('contend', MS / 5);
  const grants = (await all('contend', MS)).flat().toSorted((a, b) => a.token - b.token);
  const [first, second] = workers;
  const roundTrips = await first.call('roundTrips', MS / 10);
  await second.call('received');
  await first.call('publish', MS / 10);
  const messages = await second.call('received');
  const admin = await connect(redis.url);
  const version = /^redis_version:(.*)/m.exec(await admin.info('server'))[1].trim();
  admin.disconnect();
  await all('close');
  await Promise.all(workers.map((worker) => worker.stop()));
  await redis.stop();

  // The others got a lock that was free, by a reply.
  const pairs = grants.slice(1).map((next, i) => ({ before: grants[i], next }));
  const handoffs = pairs.filter(({ before, next }) => next.receivedAt > before.releasedAt && before.writtenAt > 0);
  const step = (name, times) => ({ name, ...spread(times) });
  const between = (name, from, to) =>
    step(
      name,
      handoffs.map((pair) => to(pair) - from(pair)),
    );
  const releasedAt = ({ before }) => before.releasedAt;
  const writtenAt = ({ before }) => before.writtenAt;
  const scriptAt = ({ next }) => next.token;
  const receivedAt = ({ next }) => next.receivedAt;
  const startedAt = ({ next }) => next.startedAt;
  const steps = [
    between('release called → request written', releasedAt, writtenAt),
    between('request written → script starts on the server', writtenAt, scriptAt),
    between('script starts → message read by the next holder', scriptAt, receivedAt),
    between('message read → first line of work', receivedAt, startedAt),
    between('**release called → first line of work**', releasedAt, startedAt),
    between('release called → its reply', releasedAt, ({ before }) => before.repliedAt),
  ];
  const floors = [
    step('floor: PUBLISH called → message received', messages),
    step('floor: an empty script, called → its reply', roundTrips),
  ];
  const [{ model }] = cpus();
  const machine = {
    processor: model.trim(),
    cores: cpus().length,
    node: process.version,
    redis: version,
    date: new Date().toISOString().slice(0, 10),
    note: process.argv.includes('--quiet')
      ? 'Nothing else ran on the machine.'
      : 'Other programs ran on the machine: to be measured again on a quiet one.',
  };
  const results = { machine, handoffs: handoffs.length, steps, floors };
  for (const { name, median, p99 } of [...steps, ...floors]) {
    console.log(`${name.padEnd(52)} ${median.toFixed(0).padStart(6)} ${p99.toFixed(0).padStart(7)} µs`);
  }
  const faults = faultsOfTimeline(results);
  for (const fault of faults) console.error(`FAILED ${fault}`);
  if (faults.length > 0) process.exitCode = 1;
  if (faults.length > 0 || QUICK) return;
  const file = join(import.meta.dirname, 'results/timeline.json');
  writeFileSync(file, await pretty(JSON.stringify(results), file));
  execFileSync(process.execPath, [join(import.meta.dirname, 'sections.mjs')], { stdio: 'inherit' });
}

function spread(times) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] * 10) / 10;
  return { median: at(0.5), p99: at(0.99) };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main();
