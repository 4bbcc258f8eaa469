// One task acquires and releases a lock that no other task wants.
import { sequentialEntries as entries } from '../entries/index.mjs';
import { ours as own, oursUnawaited, oursUsing } from '../entries/ours.mjs';
import { interleaved, medianOf, ratio, rowsOf } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { roundsOf } from '../settings.mjs';
import { stated, target } from '../targets.mjs';

const CYCLES = 250;

export async function run(plan) {
  const { lockOf, close } = await openAll(entries);
  const slices = plan.quick ? 5 : 10;
  const turn = async (entry) => {
    const lock = lockOf(entry);
    const waits = new Float64Array(CYCLES);
    const start = performance.now();
    let last = start;
    for (let i = 0; i < CYCLES; i++) {
      await lock.cycle('goods:300');
      const end = performance.now();
      waits[i] = end - last;
      last = end;
    }
    return { figures: { us: ((last - start) / CYCLES) * 1000 }, waits };
  };
  const measured = await interleaved({ entries, rounds: roundsOf(plan), slices, turn });
  await close();
  const against = (name, floor) => ratio(measured.get(name), measured.get(floor), 'us');
  const over = medianOf(measured.get(own.name), 'us') - medianOf(measured.get('raw pair'), 'us');
  return [
    {
      id: '1',
      title: 'Uncontended acquire and release, one after the other',
      method: `${slices} times ${CYCLES} cycles a round, on one key, in a process that has run for some time.`,
      columns: [{ figure: 'us', title: 'µs a cycle', digits: 1 }],
      tail: 'a cycle',
      rows: rowsOf(entries, measured),
      targets: [
        target('1', '÷ raw pair', against(own.name, 'raw pair')),
        target('1', 'µs over the raw pair', over),
        target('1', '`awaitRelease: false` ÷ raw pair', against(oursUnawaited.name, 'raw pair')),
        stated('`using` ÷ raw pair', against(oursUsing.name, 'raw pair')),
        stated('÷ bare scripts', against(own.name, 'our scripts, bare')),
        stated('bare scripts ÷ raw pair', against('our scripts, bare', 'raw pair')),
      ],
    },
  ];
}
