// More tasks than permits.
import { permitEntries } from '../entries/index.mjs';
import { BEFORE_PERMITS, oursPermits } from '../entries/ours.mjs';
import { bestPeer, medianOf, ratio } from '../measure.mjs';
import { PERMITS } from '../settings.mjs';
import { measureShared, openShared, ops, PROCESSES, TASKS } from '../sharing.mjs';
import { stated, target, unmeasured } from '../targets.mjs';

export { ops };

const WORK_MS = 2;

export async function run(plan) {
  const opened = await openShared('11-permits.mjs', permitEntries);
  const lengthMs = plan.quick ? 300 : 800;
  const admits = (way, inside) => inside[way] < PERMITS;
  const how = { plan, lengthMs, sectionMs: WORK_MS, writersPercent: 0, ways: { all: 0 }, admits };
  const { measured, rows } = await measureShared(opened, how);
  await opened.close();
  const own = measured.get(oursPermits.name);
  const against = (name) => ratio(own, measured.get(name), 'perSecond');
  const best = bestPeer(permitEntries, measured, 'perSecond', 'more');
  const others = permitEntries.filter(({ name, kind }) => kind === 'peer' && name !== best);
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
        target('11', 'locks/s ÷ redis-semaphore', against(best), `its fastest: ${best}`),
        ...others.map(({ name }) => stated(`locks/s ÷ ${name}`, against(name))),
        tailAgainstBefore(rows),
        target('11', 'commands a lock', medianOf(own, 'commands')),
      ],
    },
  ];
}

function tailAgainstBefore(rows) {
  const p99 = (name) => rows.find((row) => row.name === name)?.waits?.all.p99;
  const [before, name] = [p99(BEFORE_PERMITS), 'p99 of a wait ÷ before'];
  if (before === undefined) return unmeasured('11', name, process.env.NRL_BEFORE_MISSING);
  return target('11', name, p99(oursPermits.name) / before);
}
