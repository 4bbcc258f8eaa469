// Several processes want one key. One run has both configurations: with local handoff (4) and without (4b).
import { now } from '../clock.mjs';
import {
  contend,
  contendedColumns,
  exclusionCheck,
  fallingTokens,
  figuresOf,
  stuckIn,
  waitsOf,
} from '../contention.mjs';
import { defaultEntries as withDefaults, entriesWithStrict as main, open } from '../entries/index.mjs';
import { keyOf } from '../entries/bare.mjs';
import { ours, oursStrict } from '../entries/ours.mjs';
import { connect } from '../library.mjs';
import { bestPeer, interleaved, medianOf, ratio, rowsOf } from '../measure.mjs';
import { Worker } from '../processes.mjs';
import { checkQueueOrder, eventsOf, monitor, queueOrder } from '../queue-order.mjs';
import { startRedis } from '../redis.mjs';
import { drainMsOf, roundsOf } from '../settings.mjs';
import { BEFORE, COMMANDS, judged, ONE_PEER, OVERTAKEN, stated, target } from '../targets.mjs';

const PROCESSES = 4;
const TASKS = 10;
const LOCAL_PASSES = 16;
const WATCHED = 'goods:watched';

const BETWEEN = 'acquisitions of other processes between two of a process, at most';

const locks = new Map();
let checker;

/** The operations of the forked processes. */
export const ops = {
  async open(names, url) {
    for (const name of names) locks.set(name, await open(name, url));
    checker = await connect(url);
  },
  async contend(name, plan, checked) {
    const check = checked ? exclusionCheck(checker, `inside:${name}`) : undefined;
    const record = await contend(locks.get(name), { ...plan, section: check?.section });
    return { ...record, ...check?.found };
  },
};

export async function run(plan) {
  checkQueueOrder();
  const entries = [...main, ...withDefaults];
  const lengthMs = plan.quick ? 300 : 700;
  const found = await measureAll(plan, lengthMs);
  const { measured, checked, orders } = found;
  const extra = ({ name }) => ({
    exclusion: checked.get(name),
    order: orders.get(name),
  });
  const rows = rowsOf(entries, measured, extra);
  const best = bestPeer(entries, measured, 'msPerHandoff');
  const result = (id, title, own) => ({
    id,
    title,
    method: `${lengthMs} ms a round over an empty section; exclusion, and the order in the server's queue, in passes of their own.`,
    columns: contendedColumns,
    tail: 'a wait',
    rows: rows.filter(({ name, kind }) => kind !== 'ours' || name === own.name),
    targets: [
      judged(id, ONE_PEER, ratio(measured.get(own.name), measured.get(best), 'msPerHandoff'), best),
      judged(id, COMMANDS, medianOf(measured.get(own.name), 'commands')),
      ...orderTargets(id, own, found),
    ],
  });
  return [
    result('4', `One key, ${PROCESSES} processes with ${TASKS} tasks each`, ours),
    result('4b', 'The same without local handoff: strict order between processes', oursStrict),
  ];
}

async function measureAll(plan, lengthMs) {
  const entries = [...main, ...withDefaults];
  const redis = await startRedis();
  const workers = Array.from({ length: PROCESSES }, () => new Worker('4-processes.mjs'));
  const names = entries.map(({ name }) => name);
  await Promise.all(workers.map((worker) => worker.call('open', names, redis.url)));
  const contendAll = async (entry, key, checked) => {
    const { name } = entry;
    const startAt = now() + 30;
    const how = { key, tasks: TASKS, startAt, stopAt: startAt + lengthMs, drainMs: drainMsOf(plan, entry) };
    const records = await Promise.all(workers.map((worker) => worker.call('contend', name, how, checked)));
    return { records, stopAt: how.stopAt };
  };
  const turn = async (entry, round) => {
    const { name } = entry;
    // A key per round and entry: a task that is stuck does not disturb the next round, nor another library.
    const { records, stopAt } = await contendAll(entry, `goods:${names.indexOf(name)}-${round}`, false);
    return { figures: figuresOf(records, stopAt), waits: waitsOf(records), stuck: stuckIn(records) };
  };
  const measured = await interleaved({ entries: main, rounds: roundsOf(plan), turn, part: [0, 0.7] });

  const checked = new Map();
  for (const entry of main) {
    const { name } = entry;
    if (measured.get(name).failed !== undefined) continue;
    const { records } = await contendAll(entry, 'goods:300', true);
    const sum = (field) => records.reduce((total, record) => total + record[field], 0);
    const tokens = records[0].token.length > 0 ? { fallingTokens: fallingTokens(records) } : {};
    checked.set(name, { violations: sum('violations'), sections: sum('sections'), ...tokens });
  }
  const orders = new Map();
  for (const entry of [ours, oursStrict]) {
    const commands = await monitor(redis.url);
    const { records } = await contendAll(entry, WATCHED, false);
    const tokens = records.map(({ token }) => token);
    orders.set(entry.name, queueOrder(eventsOf(keyOf(WATCHED), await commands.stop()), tokens, LOCAL_PASSES));
  }
  const others = await interleaved({ entries: withDefaults, rounds: roundsOf(plan), turn, part: [0.85, 1] });
  for (const [name, own] of others) measured.set(name, own);
  await Promise.all(workers.map((worker) => worker.stop()));
  await redis.stop();
  return { measured, checked, orders };
}

/** Returns the figures of the order. */
function orderTargets(id, own, { orders }) {
  const order = orders.get(own.name);
  const before = order.before.most;
  const overtakenBy = order.overtaken.most;
  const inOrder =
    id === '4'
      ? [target(id, BEFORE, before), stated(OVERTAKEN, overtakenBy)]
      : [target(id, OVERTAKEN, overtakenBy), stated(BEFORE, before)];
  return [...inOrder, stated(BETWEEN, order.between.most)];
}
