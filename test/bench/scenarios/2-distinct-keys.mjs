// Many tasks in one process, each with its own key.
import { entries } from '../entries/index.mjs';
import { interleaved, ratio, rowsOf, stated, target } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { roundsOf } from '../settings.mjs';

const TASKS = 100;

export async function run({ quick }) {
  const { lockOf, close } = await openAll(entries, { autoPipelining: true });
  const [slices, lengthMs] = [quick ? 2 : 5, quick ? 120 : 200];
  const turn = async (entry) => {
    const lock = lockOf(entry);
    const waits = [];
    const start = performance.now();
    const stopAt = start + lengthMs;
    await Promise.all(
      Array.from({ length: TASKS }, async (_, task) => {
        const key = `goods:${task}`;
        for (let last = performance.now(); last < stopAt;) {
          await lock.release(await lock.acquire(key));
          const end = performance.now();
          waits.push(end - last);
          last = end;
        }
      }),
    );
    return { figures: { perSecond: (waits.length / (performance.now() - start)) * 1000 }, waits };
  };
  const measured = await interleaved({ entries, rounds: roundsOf(quick), slices, turn });
  await close();
  const ours = measured.get('nestjs-redis-lock');
  return [
    {
      id: '2',
      title: 'Distinct keys, 100 tasks in one process',
      method: `Each task cycles on its own key, ${slices} times ${lengthMs} ms a round; every entry has a client with automatic pipelining.`,
      columns: [{ figure: 'perSecond', title: 'cycles/s', digits: 0 }],
      tail: 'a cycle',
      rows: rowsOf(entries, measured),
      targets: [
        target('÷ bare scripts', ratio(ours, measured.get('our scripts, bare'), 'perSecond'), '≥', 0.9),
        target('÷ raw pair', ratio(ours, measured.get('raw pair'), 'perSecond'), '≥', 0.65),
        stated(
          'bare scripts ÷ raw pair',
          ratio(measured.get('our scripts, bare'), measured.get('raw pair'), 'perSecond'),
        ),
      ],
    },
  ];
}
