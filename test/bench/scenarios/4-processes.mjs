// Several processes want one key. One run has both configurations: with local handoff (4) and without (4b).
import { now } from '../clock.mjs';
import { contend, exclusionCheck, fallingTokens, figuresOf, stuckIn, waitsOf } from '../contention.mjs';
import { entries, entriesWithStrict, open } from '../entries/index.mjs';
import { keyOf } from '../entries/bare.mjs';
import { hasLocalPassing } from '../entries/ours.mjs';
import { connect } from '../library.mjs';
import { bestPeer, interleaved, medianOf, ratio, rowsOf, stated, target } from '../measure.mjs';
import { overtakes } from '../overtakes.mjs';
import { Worker } from '../processes.mjs';
import { checkQueueOrder, eventsOf, monitor, queueOrder } from '../queue-order.mjs';
import { startRedis } from '../redis.mjs';
import { drainMsOf, roundsOf } from '../settings.mjs';

const PROCESSES = 4;
const TASKS = 10;
const LOCAL_PASSES = 16;
const WATCHED = 'goods:watched';

const OVERTAKEN = "overtakes of a process by the server's order, at most in one wait";
const BEFORE = "acquisitions of other processes before a process by the server's order, at most in one wait";
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

export async function run({ quick }) {
  checkQueueOrder();
  const redis = await startRedis();
  const strict = await hasLocalPassing();
  const compared = strict ? entriesWithStrict : entries;
  const workers = Array.from({ length: PROCESSES }, () => new Worker('4-processes.mjs'));
  const names = compared.map(({ name }) => name);
  await Promise.all(workers.map((worker) => worker.call('open', names, redis.url)));

  const lengthMs = quick ? 300 : 1_500;
  const drainMs = drainMsOf(quick);
  // A key per round: a task that is stuck in one round does not disturb the next.
  const contendAll = async (name, key, checked) => {
    const startAt = now() + 30;
    const plan = { key, tasks: TASKS, startAt, stopAt: startAt + lengthMs, drainMs };
    const records = await Promise.all(workers.map((worker) => worker.call('contend', name, plan, checked)));
    return { records, stopAt: plan.stopAt };
  };
  const overtaken = new Map(names.map((name) => [name, []]));
  const turn = async ({ name }, round) => {
    const { records, stopAt } = await contendAll(name, `goods:${round}`, false);
    if (round >= 0) overtaken.get(name).push(overtakes(records, stopAt));
    return { figures: figuresOf(records, stopAt), waits: waitsOf(records), stuck: stuckIn(records) };
  };
  const measured = await interleaved({ entries: compared, rounds: roundsOf(quick), turn });

  const checked = new Map();
  for (const { name } of compared) {
    if (measured.get(name).failed !== undefined) continue;
    const { records } = await contendAll(name, 'goods:300', true);
    const sum = (field) => records.reduce((total, record) => total + record[field], 0);
    const tokens = records[0].token.length > 0 ? { fallingTokens: fallingTokens(records) } : {};
    checked.set(name, { violations: sum('violations'), sections: sum('sections'), ...tokens });
  }
  const orders = new Map();
  for (const { name } of compared.filter(({ kind }) => kind === 'ours')) {
    const commands = await monitor(redis.url);
    const { records } = await contendAll(name, WATCHED, false);
    const tokens = records.map(({ token }) => token);
    orders.set(name, queueOrder(eventsOf(keyOf(WATCHED), await commands.stop()), tokens, LOCAL_PASSES));
  }
  await Promise.all(workers.map((worker) => worker.stop()));
  await redis.stop();

  const extra = ({ name }) => ({
    exclusion: checked.get(name),
    order: orders.get(name),
    overtakes: together(overtaken.get(name)),
  });
  const rows = rowsOf(compared, measured, extra);
  const result = (id, title, own, targets) => ({
    id,
    title,
    method: `${lengthMs} ms a round over an empty section; exclusion, and the order in the server's queue, in passes of their own.`,
    columns: [
      { figure: 'msPerHandoff', title: 'ms a handoff', digits: 4 },
      { figure: 'commands', title: 'commands an acquisition', digits: 2 },
      { figure: 'backPercent', title: '% straight back to the task that gave it', digits: 0 },
    ],
    tail: 'a wait',
    rows: rows.filter(({ name, kind }) => kind !== 'ours' || name === own),
    targets,
  });
  const best = bestPeer(compared, measured, 'msPerHandoff');
  const against = (own) => ratio(measured.get(own), measured.get(best.name), 'msPerHandoff');
  const byClocks = (own) => {
    const { process, task } = together(overtaken.get(own));
    return [
      stated("overtakes of a process by the clients' clocks, at most in one wait", process.most),
      stated("overtakes of a task by the clients' clocks, at most in one wait", task.most),
    ];
  };
  const commands = (own) => medianOf(measured.get(own), 'commands');
  const [own, ownStrict] = ['nestjs-redis-lock', 'nestjs-redis-lock, fairness: strict'];
  const results = [
    result('4', 'One key, 4 processes with 10 tasks each', own, [
      target(`ms a handoff ÷ best peer (${best.name})`, against(own), '≤', 0.2),
      target('commands an acquisition', commands(own), '≤', 0.4),
      target(BEFORE, orders.get(own).before.most, '≤', LOCAL_PASSES * PROCESSES),
      stated(OVERTAKEN, orders.get(own).overtaken.most),
      stated(BETWEEN, orders.get(own).between.most),
      ...byClocks(own),
    ]),
  ];
  if (strict) {
    results.push(
      result('4b', 'The same without local handoff: strict order between processes', ownStrict, [
        target(`ms a handoff ÷ best peer (${best.name})`, against(ownStrict), '≤', 1.5),
        target('commands an acquisition', commands(ownStrict), '≤', 2.5),
        target(OVERTAKEN, orders.get(ownStrict).overtaken.most, '≤', 0),
        stated(BEFORE, orders.get(ownStrict).before.most),
        stated(BETWEEN, orders.get(ownStrict).between.most),
        ...byClocks(ownStrict),
      ]),
    );
  }
  return results;
}

function together(rounds) {
  const over = (field) => ({
    mean: rounds.reduce((total, each) => total + each[field].mean, 0) / rounds.length,
    most: rounds.reduce((most, each) => Math.max(most, each[field].most), 0),
  });
  return { process: over('perProcess'), task: over('perTask') };
}
