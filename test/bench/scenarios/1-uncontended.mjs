// One task acquires and releases a lock that no other task wants.
import { entries } from '../entries/index.mjs';
import { interleaved, ratio, rowsOf, stated, target } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { roundsOf } from '../settings.mjs';

export async function run({ quick }) {
  const { lockOf, close } = await openAll(entries);
  const [slices, cycles] = [quick ? 5 : 20, 250];
  const turn = async (entry) => {
    const lock = lockOf(entry);
    const waits = new Float64Array(cycles);
    const start = performance.now();
    let last = start;
    for (let i = 0; i < cycles; i++) {
      await lock.release(await lock.acquire('goods:300'));
      const end = performance.now();
      waits[i] = end - last;
      last = end;
    }
    return { figures: { us: ((last - start) / cycles) * 1000 }, waits };
  };
  const measured = await interleaved({ entries, rounds: roundsOf(quick), slices, turn });
  await close();
  const ours = measured.get('nestjs-redis-lock');
  return [
    {
      id: '1',
      title: 'Uncontended acquire and release, one after the other',
      method: `${slices} times ${cycles} cycles a round, on one key.`,
      columns: [{ figure: 'us', title: 'µs a cycle', digits: 1 }],
      tail: 'a cycle',
      rows: rowsOf(entries, measured),
      targets: [
        target('÷ bare scripts', ratio(ours, measured.get('our scripts, bare'), 'us'), '≤', 1.1),
        target('÷ raw pair', ratio(ours, measured.get('raw pair'), 'us'), '≤', 1.25),
        stated('bare scripts ÷ raw pair', ratio(measured.get('our scripts, bare'), measured.get('raw pair'), 'us')),
      ],
    },
  ];
}
