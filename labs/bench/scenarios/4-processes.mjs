// Several processes want one key. One run has both configurations: with local handoff (4) and without (4b).
import { now } from '../clock.mjs';
import { contend, contendedColumns, exclusionCheck, figuresOf, foundIn, stuckIn, waitsOf } from '../contention.mjs';
import { defaultEntries as withDefaults, entriesWithStrict as main, open } from '../entries/index.mjs';
import { ours, oursStrict } from '../entries/ours.mjs';
import { connect } from '../library.mjs';
import { bestPeer, interleaved, medianOf, ratio, rowsOf } from '../measure.mjs';
import { Worker } from '../processes.mjs';
import { startRedis } from '../redis.mjs';
import { drainMsOf, roundsOf } from '../settings.mjs';
import { COMMANDS, judged, ONE_PEER } from '../targets.mjs';

const PROCESSES = 4;
const TASKS = 10;

const entries = [...main, ...withDefaults];
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
  const lengthMs = plan.quick ? 300 : 700;
  const { measured, checked } = await measureAll(plan, lengthMs);
  const rows = rowsOf(entries, measured, ({ name }) => ({ exclusion: checked.get(name) }));
  const best = bestPeer(entries, measured, 'msPerHandoff');
  const result = (id, title, own) => ({
    id,
    title,
    method: `${lengthMs} ms a round over an empty section; exclusion checked in a pass of its own.`,
    columns: contendedColumns,
    tail: 'a wait',
    rows: rows.filter(({ name, kind }) => kind !== 'ours' || name === own.name),
    targets: [
      judged(id, ONE_PEER, ratio(measured.get(own.name), measured.get(best), 'msPerHandoff'), best),
      judged(id, COMMANDS, medianOf(measured.get(own.name), 'commands')),
    ],
  });
  return [
    result('4', `One key, ${PROCESSES} processes with ${TASKS} tasks each`, ours),
    result('4b', 'The same without local handoff: strict order between processes', oursStrict),
  ];
}

async function measureAll(plan, lengthMs) {
  const redis = await startRedis();
  const workers = Array.from({ length: PROCESSES }, () => new Worker('4-processes.mjs'));
  const names = entries.map(({ name }) => name);
  await Promise.all(workers.map((worker) => worker.call('open', names, redis.url)));
  const contendAll = async (entry, key, isChecked) => {
    const startAt = now() + 30;
    const how = { key, tasks: TASKS, startAt, stopAt: startAt + lengthMs, drainMs: drainMsOf(plan, entry) };
    const records = await Promise.all(workers.map((worker) => worker.call('contend', entry.name, how, isChecked)));
    return { records, stopAt: how.stopAt };
  };
  const turn = async (entry, round) => {
    // A key per round and entry: a task that is stuck does not disturb the next round, nor another library.
    const { records, stopAt } = await contendAll(entry, `goods:${entries.indexOf(entry)}-${round}`, false);
    return { figures: figuresOf(records, stopAt), waits: waitsOf(records), stuck: stuckIn(records) };
  };
  const measured = await interleaved({ entries: main, rounds: roundsOf(plan), turn });
  const checked = new Map();
  for (const entry of main) {
    if (measured.get(entry.name).failed === undefined)
      checked.set(entry.name, foundIn((await contendAll(entry, 'goods:300', true)).records));
  }
  const others = await interleaved({ entries: withDefaults, rounds: 2, turn });
  for (const [name, own] of others) measured.set(name, own);
  await Promise.all(workers.map((worker) => worker.stop()));
  redis.stop();
  return { measured, checked };
}
