// One instance takes the same lock again and again, and keeps it in between. Then another instance wants it.
import { now, sleep } from '../clock.mjs';
import { commandsSent } from '../commands.mjs';
import { open } from '../entries/index.mjs';
import { refusalOf, startInstance } from '../entries/ours.mjs';
import { raw } from '../entries/raw.mjs';
import { message, messageLatency, openMessages, ops as messageOps } from '../messages.mjs';
import { interleaved, medianOf, ratio, rowsOf } from '../measure.mjs';
import { Worker } from '../processes.mjs';
import { startRedis } from '../redis.mjs';
import { roundsOf } from '../settings.mjs';
import { COMMANDS, stated, target } from '../targets.mjs';

const KEEP_MS = 2_000;
const KEY = 'goods:300';
const TITLE = `One key that its instance keeps for ${KEEP_MS / 1000} s after each use`;
const OTHER = 'another instance wants the kept lock';
const KEPT = 'nestjs-redis-lock, `keepMs`';

let instance;

/** The operations of the two processes. */
export const ops = {
  async open(url) {
    instance = startInstance(url, { keepMs: KEEP_MS });
    await use('warm-up:1', 20);
    await openMessages(url);
  },
  use: (key, times) => use(key, times),
  /** Returns the milliseconds from the call to the grant. */
  async want(key) {
    const start = now();
    const lock = await instance.service.acquire(key);
    const took = now() - start;
    await lock.release();
    return took;
  },
  ...messageOps,
};

async function use(key, times) {
  const before = commandsSent();
  const start = performance.now();
  for (let i = 0; i < times; i++) await (await instance.service.acquire(key)).release();
  return { us: ((performance.now() - start) / times) * 1000, commands: (commandsSent() - before) / times };
}

export async function run(plan) {
  const refusal = await refusalOf({ keepMs: KEEP_MS });
  if (refusal !== undefined) return [{ id: '13', title: TITLE, absent: `not in this build: ${refusal}` }];
  const redis = await startRedis();
  const own = await measureOwn(plan, redis.url);
  const other = await measureOther(plan, redis.url);
  await redis.stop();
  const against = ratio(other.measured.get(OTHER), other.measured.get(message.name), 'ms');
  return [
    {
      id: '13',
      title: TITLE,
      method: '2,000 cycles a round, one after the other, beside 250 of the raw pair.',
      columns: [
        { figure: 'us', title: 'µs a cycle', digits: 1 },
        { figure: 'commands', title: 'commands a cycle', digits: 3 },
      ],
      rows: rowsOf(own.entries, own.measured),
      targets: [
        target('13', 'one after the other ÷ raw pair', ratio(own.measured.get(KEPT), own.measured.get(raw.name), 'us')),
        target('13', COMMANDS, medianOf(own.measured.get(KEPT), 'commands')),
      ],
    },
    {
      id: '13b',
      title: 'Another instance wants the kept lock',
      method:
        'One instance uses the lock and keeps it. Then an instance in another process wants it: from its call to its grant.',
      columns: [{ figure: 'ms', title: 'ms', digits: 3 }],
      tail: 'one',
      rows: rowsOf(other.entries, other.measured),
      targets: [
        target('13', 'another instance ÷ raw PUBLISH → message', against),
        stated('raw PUBLISH → message', medianOf(other.measured.get(message.name), 'ms'), 'ms'),
      ],
    },
  ];
}

async function measureOwn(plan, url) {
  const lock = await open(raw.name, url);
  const worker = new Worker('13-kept-lock.mjs');
  await worker.call('open', url);
  const rawCycles = async () => {
    const [times, before, start] = [250, commandsSent(), performance.now()];
    for (let i = 0; i < times; i++) await lock.cycle(KEY);
    return { us: ((performance.now() - start) / times) * 1000, commands: (commandsSent() - before) / times };
  };
  const entries = [
    { name: raw.name, kind: 'floor', run: rawCycles },
    { name: KEPT, kind: 'ours', run: () => worker.call('use', KEY, 2_000) },
  ];
  const turn = async (entry) => ({ figures: await entry.run() });
  const slices = plan.quick ? 2 : 8;
  const measured = await interleaved({ entries, rounds: roundsOf(plan), slices, turn, part: [0, 0.5] });
  await worker.stop();
  await lock.close();
  return { entries, measured };
}

async function measureOther(plan, url) {
  const [a, b] = [new Worker('13-kept-lock.mjs'), new Worker('13-kept-lock.mjs')];
  await Promise.all([a, b].map((worker) => worker.call('open', url)));
  const pause = () => sleep(5 + Math.random() * 10);
  let turns = 0;
  const wanted = async () => {
    // Nobody else keeps a key that was not used before.
    const key = `goods:${++turns}`;
    await a.call('use', key, 10);
    await pause();
    return b.call('want', key);
  };
  const entries = [
    { name: message.name, kind: 'floor', run: () => messageLatency(a, b, pause) },
    { name: OTHER, kind: 'ours', run: wanted },
  ];
  const times = plan.quick ? 10 : 60;
  const turn = async (entry) => {
    const waits = [];
    for (let i = 0; i < times; i++) waits.push(await entry.run());
    return { figures: { ms: waits.toSorted((x, y) => x - y)[times >> 1] }, waits };
  };
  const measured = await interleaved({ entries, rounds: roundsOf(plan), turn, part: [0.5, 1] });
  await Promise.all([a.stop(), b.stop()]);
  return { entries, measured };
}
