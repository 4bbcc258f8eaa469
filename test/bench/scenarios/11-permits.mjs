// More tasks than permits.
import { permitEntries } from '../entries/index.mjs';
import { medianOf, ratio, stated, target } from '../measure.mjs';
import { PERMITS } from '../settings.mjs';
import { measureShared, openShared, ops, PROCESSES, TASKS } from '../sharing.mjs';

export { ops };

const WORK_MS = 2;

export async function run({ quick }) {
  const opened = await openShared('11-permits.mjs', permitEntries);
  const lengthMs = quick ? 300 : 1_000;
  const admits = (way, inside) => inside[way] < PERMITS;
  const plan = { quick, lengthMs, sectionMs: WORK_MS, writersPercent: 0, ways: { all: 0 }, admits };
  const { measured, rows } = await measureShared(opened, plan);
  await opened.close();
  const own = measured.get('nestjs-redis-lock, permits');
  const peers = permitEntries.filter(({ kind }) => kind === 'peer');
  return [
    {
      id: '11',
      title: `${PERMITS} permits, ${PROCESSES} processes with ${TASKS} tasks each`,
      method: `${lengthMs} ms a round, with ${WORK_MS} ms of work inside. That never more than ${PERMITS} are inside is checked in the rounds themselves, by the one clock that all processes have.`,
      columns: [
        { figure: 'perSecond', title: 'locks/s', digits: 0 },
        { figure: 'inside', title: `permits in use of ${PERMITS}, mean`, digits: 1 },
        { figure: 'commands', title: 'commands a lock', digits: 2 },
      ],
      tails: { all: 'a wait' },
      excluded: `over ${PERMITS} inside`,
      rows,
      targets: [
        ...peers.map(({ name }) => stated(`locks/s ÷ ${name}`, ratio(own, measured.get(name), 'perSecond'))),
        target('commands a lock', medianOf(own, 'commands'), '≤', 2.5),
      ],
    },
  ];
}
