// One task acquires and releases a lock that no other task wants.
import { sequentialEntries as entries } from '../entries/index.mjs';
import { ours as own, oursUnawaited, oursUsing } from '../entries/ours.mjs';
import { medianOf, ratio, rowsOf } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { measureCycles, sequentialColumns, sequentialMethod } from '../sequential.mjs';
import { stated, target } from '../targets.mjs';

export async function run(plan) {
  const { lockOf, close } = await openAll(entries);
  const measured = await measureCycles({ plan, entries, lockOf });
  await close();
  const against = (name, floor) => ratio(measured.get(name), measured.get(floor), 'us');
  return [
    {
      id: '1',
      title: 'Uncontended acquire and release, one after the other',
      method: sequentialMethod(plan),
      columns: sequentialColumns,
      tail: 'a cycle',
      rows: rowsOf(entries, measured),
      targets: [
        target('1', '÷ raw pair', against(own.name, 'raw pair')),
        target(
          '1',
          'µs over the raw pair',
          medianOf(measured.get(own.name), 'us') - medianOf(measured.get('raw pair'), 'us'),
        ),
        target('1', '`awaitRelease: false` ÷ raw pair', against(oursUnawaited.name, 'raw pair')),
        stated('`using` ÷ raw pair', against(oursUsing.name, 'raw pair')),
        stated('÷ bare scripts', against(own.name, 'our scripts, bare')),
        stated('bare scripts ÷ raw pair', against('our scripts, bare', 'raw pair')),
      ],
    },
  ];
}
