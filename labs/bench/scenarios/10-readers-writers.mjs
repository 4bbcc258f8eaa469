// Many readers, which share the lock, and a few writers, which do not.
import { readWriteEntries } from '../entries/index.mjs';
import { BEFORE_SHARED, ours, oursShared } from '../entries/ours.mjs';
import { medianOf, ratio } from '../measure.mjs';
import { measureShared, openShared, ops, PROCESSES, TASKS } from '../sharing.mjs';
import { stated, target, unmeasured } from '../targets.mjs';

export { ops };

const WRITERS_PERCENT = 5;
const WORK_MS = 2;
const [READER, WRITER] = [0, 1];
const ALONE = 'locks/s ÷ our own exclusive mode';

export async function run(plan) {
  const opened = await openShared('10-readers-writers.mjs', readWriteEntries);
  const results = [];
  for (const [id, sectionMs, part] of [
    ['10', WORK_MS, [0, 0.5]],
    ['10b', 0, [0.5, 1]],
  ]) {
    const lengthMs = plan.quick ? 300 : 800;
    const ways = { readers: READER, writers: WRITER };
    const admits = (way, inside) => inside[WRITER] === 0 && (way === READER || inside[READER] === 0);
    const how = { plan, lengthMs, sectionMs, writersPercent: WRITERS_PERCENT, ways, admits, part };
    results.push(resultOf(id, sectionMs, lengthMs, await measureShared(opened, how)));
  }
  await opened.close();
  return results;
}

function resultOf(id, sectionMs, lengthMs, { measured, rows }) {
  const own = measured.get(oursShared.name);
  const against = (name) => ratio(own, measured.get(name), 'perSecond');
  const wait = (name, of) => rows.find((row) => row.name === name).waits[of].p99;
  const alone = against(ours.name);
  const tail = (of) => stated(`p99 of a ${of.slice(0, -1)}'s wait`, wait(oursShared.name, of), 'ms');
  const work = sectionMs > 0 ? `with ${sectionMs} ms of work inside` : 'over an empty section';
  return {
    id,
    title: `One key, 95 % readers and 5 % writers, ${PROCESSES} processes with ${TASKS} tasks each, ${work}`,
    method:
      `${lengthMs} ms a round. Each task reads or writes by chance, everyone in the same order. redis-semaphore has no lock that readers share, ` +
      'nor has any of the others: with theirs, with the raw pair and with our exclusive mode readers exclude one another. Exclusion is checked ' +
      'in the rounds themselves, by the one clock that all processes have.',
    columns: [
      { figure: 'perSecond', title: 'locks/s', digits: 0 },
      { figure: 'inside', title: 'inside at once, mean', digits: 1 },
      { figure: 'commands', title: 'commands a lock', digits: 2 },
    ],
    tails: { readers: "a reader's wait", writers: "a writer's wait" },
    excluded: 'beside a writer',
    rows,
    targets: [
      ...(id === '10' ? [againstBefore(measured, against), stated(ALONE, alone)] : [target(id, ALONE, alone)]),
      stated('locks/s ÷ redis-semaphore, whose readers exclude one another', against('redis-semaphore')),
      target(id, 'commands a lock', medianOf(own, 'commands')),
      tail('readers'),
      tail('writers'),
    ],
  };
}

function againstBefore(measured, against) {
  const name = 'locks/s ÷ before';
  if (!measured.has(BEFORE_SHARED)) return unmeasured('10', name, process.env.NRL_BEFORE_MISSING);
  return target('10', name, against(BEFORE_SHARED));
}
