// Many tasks of one process wait for a lock that another process holds. Measures the cost of waiting.
import { sleep } from '../clock.mjs';
import { commandsSent } from '../commands.mjs';
import { entries, open } from '../entries/index.mjs';
import { interleaved, medianOf, rowsOf, target } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { Worker } from '../processes.mjs';
import { drainMsOf, roundsOf } from '../settings.mjs';

const WAITERS = 100;

const held = new Map();

/** The operations of the process that holds the lock. */
export const ops = {
  async open(names, url) {
    for (const name of names) held.set(name, { lock: await open(name, url) });
  },
  async hold(name, key) {
    const mine = held.get(name);
    mine.handle = await mine.lock.acquire(key);
  },
  async free(name) {
    const { lock, handle } = held.get(name);
    await lock.release(handle);
  },
};

export async function run({ quick }) {
  const { redis, lockOf, close } = await openAll(entries);
  const holder = new Worker('5-idle-waiters.mjs');
  await holder.call(
    'open',
    entries.map(({ name }) => name),
    redis.url,
  );
  const lengthMs = quick ? 200 : 5_000;
  const turn = async (entry, round) => {
    const lock = lockOf(entry);
    const key = `goods:${round}`;
    await holder.call('hold', entry.name, key);
    const wait = async () => lock.release(await lock.acquire(key));
    const waiting = Array.from({ length: WAITERS }, wait);
    await sleep(50);
    const before = commandsSent();
    const start = performance.now();
    await sleep(round < 0 ? 200 : lengthMs);
    const perSecond = ((commandsSent() - before) / (performance.now() - start)) * 1000;
    await holder.call('free', entry.name);
    const drained = Promise.all(waiting).catch(() => undefined);
    await Promise.race([drained, sleep(drainMsOf(quick))]);
    return { figures: { perSecond } };
  };
  const measured = await interleaved({ entries, rounds: roundsOf(quick), turn });
  await holder.stop();
  await close();
  return [
    {
      id: '5',
      title: '100 waiters in one process',
      method: `Another process keeps the lock; commands counted for ${lengthMs / 1000} s a round, from 50 ms after all began to wait.`,
      columns: [{ figure: 'perSecond', title: 'commands/s', digits: 1 }],
      rows: rowsOf(entries, measured),
      targets: [target('commands/s', medianOf(measured.get('nestjs-redis-lock'), 'perSecond'), '≤', 1)],
    },
  ];
}
