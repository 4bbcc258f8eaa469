// Many tasks of one process want one key.
import { now } from '../clock.mjs';
import { contend, exclusionCheck, fallingTokens, figuresOf, stuckIn, waitsOf } from '../contention.mjs';
import { entries } from '../entries/index.mjs';
import { connect } from '../library.mjs';
import { bestPeer, interleaved, medianOf, ratio, rowsOf, target } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { drainMsOf, roundsOf } from '../settings.mjs';

const TASKS = 50;

export async function run({ quick }) {
  const { redis, lockOf, close } = await openAll(entries);
  const lengthMs = quick ? 250 : 1_000;
  const drainMs = drainMsOf(quick);
  const turn = async (entry, round) => {
    // A key per round: a task that is stuck in one round does not disturb the next.
    const key = `goods:${round}`;
    const startAt = now() + 5;
    const stopAt = startAt + lengthMs;
    const records = [await contend(lockOf(entry), { key, tasks: TASKS, startAt, stopAt, drainMs })];
    return { figures: figuresOf(records, stopAt), waits: waitsOf(records), stuck: stuckIn(records) };
  };
  const measured = await interleaved({ entries, rounds: roundsOf(quick), turn });

  // Exclusion is checked in its own pass: its section would add to the time of a handoff.
  const checked = new Map();
  const checker = await connect(redis.url);
  for (const entry of entries) {
    if (measured.get(entry.name).failed !== undefined) continue;
    const { found, section } = exclusionCheck(checker, `inside:${entry.name}`);
    const startAt = now();
    const plan = { key: 'goods:300', tasks: TASKS, startAt, stopAt: startAt + lengthMs, drainMs, section };
    const record = await contend(lockOf(entry), plan);
    checked.set(entry.name, {
      ...found,
      ...(record.token.length > 0 ? { fallingTokens: fallingTokens([record]) } : {}),
    });
  }
  checker.disconnect();
  await close();

  const ours = measured.get('nestjs-redis-lock');
  const best = bestPeer(entries, measured, 'msPerHandoff');
  return [
    {
      id: '3',
      title: 'One key, 50 tasks in one process',
      method: `${lengthMs} ms a round over an empty section; exclusion checked in a pass of its own.`,
      columns: [
        { figure: 'msPerHandoff', title: 'ms a handoff', digits: 4 },
        { figure: 'commands', title: 'commands an acquisition', digits: 2 },
        { figure: 'backPercent', title: '% straight back to the task that gave it', digits: 0 },
      ],
      tail: 'a wait',
      rows: rowsOf(entries, measured, ({ name }) => ({ exclusion: checked.get(name) })),
      targets: [
        target(
          `ms a handoff ÷ best peer (${best.name})`,
          ratio(ours, measured.get(best.name), 'msPerHandoff'),
          '≤',
          0.1,
        ),
        target('commands an acquisition', medianOf(ours, 'commands'), '≤', 0.15),
      ],
    },
  ];
}
