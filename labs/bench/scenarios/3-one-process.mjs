// Many tasks of one process want one key.
import { now } from '../clock.mjs';
import { contend, contendedColumns, exclusionCheck, figuresOf, foundIn, stuckIn, waitsOf } from '../contention.mjs';
import { defaultEntries as withDefaults, entries as main } from '../entries/index.mjs';
import { connect } from '../library.mjs';
import { bestPeer, interleaved, medianOf, ratio, rowsOf } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { drainMsOf, roundsOf } from '../settings.mjs';
import { COMMANDS, ONE_PEER, target } from '../targets.mjs';

const TASKS = 50;

export async function run(plan) {
  const entries = [...main, ...withDefaults];
  const { redis, lockOf, close } = await openAll(entries);
  const lengthMs = plan.quick ? 250 : 600;
  const contendFor = async (entry, key, section) => {
    const startAt = now() + 5;
    const how = { key, tasks: TASKS, startAt, stopAt: startAt + lengthMs, drainMs: drainMsOf(plan, entry), section };
    return { records: [await contend(lockOf(entry), how)], stopAt: how.stopAt };
  };
  const turn = async (entry, round) => {
    // A key per round and entry: a task that is stuck does not disturb the next round, nor another library.
    const { records, stopAt } = await contendFor(entry, `goods:${entries.indexOf(entry)}-${round}`);
    return { figures: figuresOf(records, stopAt), waits: waitsOf(records), stuck: stuckIn(records) };
  };
  const measured = await interleaved({ entries: main, rounds: roundsOf(plan), turn });

  // Exclusion is checked in its own pass: its section would add to the time of a handoff.
  const checked = new Map();
  const checker = await connect(redis.url);
  for (const entry of main) {
    if (measured.get(entry.name).failed !== undefined) continue;
    const { found, section } = exclusionCheck(checker, `inside:${entry.name}`);
    const { records } = await contendFor(entry, 'goods:300', section);
    checked.set(entry.name, foundIn([{ ...records[0], ...found }]));
  }
  checker.disconnect();
  const others = await interleaved({ entries: withDefaults, rounds: 2, turn });
  for (const [name, own] of others) measured.set(name, own);
  await close();

  const ours = measured.get('nestjs-redis-lock');
  const best = bestPeer(entries, measured, 'msPerHandoff');
  return [
    {
      id: '3',
      title: `One key, ${TASKS} tasks in one process`,
      method: `${lengthMs} ms a round over an empty section; exclusion checked in a pass of its own.`,
      columns: contendedColumns,
      tail: 'a wait',
      rows: rowsOf(entries, measured, ({ name }) => ({ exclusion: checked.get(name) })),
      targets: [
        target('3', ONE_PEER, ratio(ours, measured.get(best), 'msPerHandoff'), best),
        target('3', COMMANDS, medianOf(ours, 'commands')),
      ],
    },
  ];
}
