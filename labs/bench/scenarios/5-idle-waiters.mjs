// Many tasks of one process wait for a lock that another process holds. Measures the cost of waiting.
import { sleep } from '../clock.mjs';
import { commandsSent } from '../commands.mjs';
import { entries, open } from '../entries/index.mjs';
import { interleaved, medianOf, rowsOf } from '../measure.mjs';
import { Worker } from '../processes.mjs';
import { startRedis } from '../redis.mjs';
import { drainMsOf } from '../settings.mjs';
import { target } from '../targets.mjs';

const WAITERS = 100;

const opened = new Map();

/** The operations of the process that holds the lock, and of the one that waits. */
export const ops = {
  async open(names, url) {
    for (const name of names) opened.set(name, { lock: await open(name, url) });
  },
  async hold(name, key) {
    const mine = opened.get(name);
    mine.handle = await mine.lock.acquire(key);
  },
  async free(name) {
    const { lock, handle } = opened.get(name);
    await lock.release(handle);
  },
  /** Returns the commands a second, from 50 ms after all began to wait. */
  async wait(name, key, lengthMs) {
    const mine = opened.get(name);
    mine.waiting = Array.from({ length: WAITERS }, () => mine.lock.cycle(key));
    await sleep(50);
    const before = commandsSent();
    const start = performance.now();
    await sleep(lengthMs);
    return ((commandsSent() - before) / (performance.now() - start)) * 1000;
  },
  async drain(name, forMs) {
    const drained = Promise.all(opened.get(name).waiting).catch(() => undefined);
    await Promise.race([drained, sleep(forMs)]);
  },
};

export async function run(plan) {
  const { quick } = plan;
  const redis = await startRedis();
  const names = entries.map(({ name }) => name);
  const [holder, waiters] = [1, 2].map(() => new Worker('5-idle-waiters.mjs'));
  for (const worker of [holder, waiters]) await worker.call('open', names, redis.url);
  // Polling entries do the same all the time. This library repeats a request now and then.
  const lengthOf = ({ kind }) => (quick ? 500 : kind === 'ours' ? 4_000 : 800);
  const turn = async (entry, round) => {
    const { name } = entry;
    const key = `goods:${entries.indexOf(entry)}-${round}`;
    await holder.call('hold', name, key);
    const perSecond = await waiters.call('wait', name, key, round < 0 ? 200 : lengthOf(entry));
    await holder.call('free', name);
    await waiters.call('drain', name, drainMsOf(plan));
    return { figures: { perSecond } };
  };
  const measured = await interleaved({ entries, rounds: quick ? 1 : 3, turn });
  await Promise.all([holder.stop(), waiters.stop()]);
  redis.stop();
  return [
    {
      id: '5',
      title: '100 waiters in one process',
      method:
        'Another process keeps the lock; commands counted for 0.8 s a round, or for 4 s of this library, from 50 ms after all began to wait.',
      columns: [{ figure: 'perSecond', title: 'commands/s', digits: 1 }],
      rows: rowsOf(entries, measured),
      targets: [target('5', 'commands/s', medianOf(measured.get('nestjs-redis-lock'), 'perSecond'))],
    },
  ];
}
