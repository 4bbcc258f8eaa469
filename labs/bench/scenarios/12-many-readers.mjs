// Thousands of readers of one process want one lock at once: a free one, or one that a writer holds.
import { sleep } from '../clock.mjs';
import { commandsSent } from '../commands.mjs';
import { startInstance } from '../entries/ours.mjs';
import { openRaw } from '../entries/raw.mjs';
import { connect } from '../library.mjs';
import { interleaved, medianOf, rowsOf, within } from '../measure.mjs';
import { startRedis } from '../redis.mjs';
import { TTL_MS } from '../settings.mjs';
import { stated, target } from '../targets.mjs';

const READERS = 20_000;
/** Readers that are not served by then never are. */
const LIMIT_MS = 15_000;

export async function run(plan) {
  const readers = plan.quick ? 4_000 : READERS;
  const redis = await startRedis();
  const [instance, other] = [startInstance(redis.url), startInstance(redis.url)];
  for (const { service } of [instance, other]) await (await service.acquire('warm-up:1')).release();
  const client = await connect(redis.url, { enableAutoPipelining: true });
  const raw = await openRaw(client);
  const read = (key) => async () => (await instance.service.acquire(key, { mode: 'shared' })).release();
  const { Semaphore } = await import('redis-semaphore');
  const permit = (key) => async () => {
    const lock = new Semaphore(client, key, readers, { lockTimeout: TTL_MS, acquireTimeout: Infinity });
    await lock.acquire();
    await lock.release();
  };
  const entries = [
    { name: 'raw pairs, each on its own key', kind: 'floor', run: (key) => allOf(readers, (i) => raw.cycle(key + i)) },
    { name: `redis-semaphore, ${READERS} permits, free`, kind: 'peer', run: (key) => allOf(readers, permit(key)) },
    { name: FREE, kind: 'ours', run: (key) => allOf(readers, read(key)) },
    { name: BEHIND, kind: 'ours', run: (key) => behindWriter(other.service, key, () => allOf(readers, read(key))) },
  ];
  const turn = async (entry, round) => {
    const before = commandsSent();
    const { served, seconds } = await entry.run(`goods:${round}`);
    return { figures: { seconds, served, commands: (commandsSent() - before) / readers } };
  };
  const rounds = plan.quick ? 1 : 3;
  const measured = await interleaved({ entries, rounds, turn });
  await Promise.all([instance.close(), other.close()]);
  client.disconnect();
  await redis.stop();
  return [resultOf(readers, entries, measured)];
}

const FREE = 'nestjs-redis-lock, lock free';
const BEHIND = 'nestjs-redis-lock, behind a writer';

function resultOf(readers, entries, measured) {
  const of = (name, figure) => medianOf(measured.get(name), figure);
  return {
    id: '12',
    title: `${readers.toLocaleString('en')} readers of one process at once`,
    method:
      `Each reader acquires the shared lock and releases it at once. Seconds count from the first call, behind a writer from the call of its ` +
      `release. The writer is another instance. Readers that are not served after ${LIMIT_MS / 1000} s are given up. The other libraries have ` +
      'no shared locks: a semaphore with a permit for each is the nearest.',
    columns: [
      { figure: 'seconds', title: 's until all are served', digits: 3 },
      { figure: 'served', title: 'served', digits: 0 },
      { figure: 'commands', title: 'commands a reader', digits: 3 },
    ],
    rows: rowsOf(entries, measured),
    targets: [
      target('12', 'seconds until all are served, lock free', of(FREE, 'seconds')),
      target('12', 'seconds until all are served, behind a writer', of(BEHIND, 'seconds')),
      target('12', 'commands a reader, lock free', of(FREE, 'commands')),
      target('12', 'commands a reader, behind a writer', of(BEHIND, 'commands')),
      stated('readers served, lock free', of(FREE, 'served')),
      stated('readers served, behind a writer', of(BEHIND, 'served')),
    ],
  };
}

/** Starts `count` calls at once. Returns how many succeeded in time, and when the last one did. */
async function allOf(count, call) {
  const start = performance.now();
  const done = progressOf(count, call);
  await within(LIMIT_MS, done.all).catch(() => undefined);
  const seconds = done.served() === count ? (performance.now() - start) / 1000 : LIMIT_MS / 1000;
  return { served: done.served(), seconds };
}

function progressOf(count, call) {
  let served = 0;
  const one = async (_, i) => {
    await call(i);
    served += 1;
  };
  const all = Promise.allSettled(Array.from({ length: count }, one));
  return { all, served: () => served };
}

async function behindWriter(service, key, start) {
  const writer = await service.acquire(key);
  const running = start();
  await sleep(1_000);
  const released = performance.now();
  const release = writer.release();
  const { served, seconds } = await running;
  const sinceRelease = (performance.now() - released) / 1000;
  await release;
  return { served, seconds: seconds === LIMIT_MS / 1000 ? seconds : sinceRelease };
}
