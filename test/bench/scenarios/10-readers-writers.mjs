// Many readers, which share the lock, and a few writers, which do not.
import { readWriteEntries } from '../entries/index.mjs';
import { medianOf, ratio, stated, target } from '../measure.mjs';
import { measureShared, openShared, ops, PROCESSES, TASKS } from '../sharing.mjs';

export { ops };

const WRITERS_PERCENT = 5;
const WORK_MS = 2;
const [READER, WRITER] = [0, 1];

export async function run({ quick }) {
  const opened = await openShared('10-readers-writers.mjs', readWriteEntries);
  const results = [];
  for (const [id, sectionMs] of [
    ['10', WORK_MS],
    ['10b', 0],
  ]) {
    const lengthMs = quick ? 300 : 1_000;
    const ways = { readers: READER, writers: WRITER };
    const admits = (way, inside) => inside[WRITER] === 0 && (way === READER || inside[READER] === 0);
    const plan = { quick, lengthMs, sectionMs, writersPercent: WRITERS_PERCENT, ways, admits };
    results.push(resultOf(id, sectionMs, lengthMs, await measureShared(opened, plan)));
  }
  await opened.close();
  return results;
}

function resultOf(id, sectionMs, lengthMs, { measured, rows }) {
  const [own, alone, peer] = ['nestjs-redis-lock, shared', 'nestjs-redis-lock', 'redis-semaphore'].map((name) =>
    measured.get(name),
  );
  const wait = (name, of) => rows.find((row) => row.name === name).waits[of].p99;
  const tail = (of) => stated(`p99 of a ${of.slice(0, -1)}'s wait`, wait('nestjs-redis-lock, shared', of), 'ms');
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
      stated('locks/s ÷ redis-semaphore, whose readers exclude one another', ratio(own, peer, 'perSecond')),
      stated('locks/s ÷ our own exclusive mode', ratio(own, alone, 'perSecond')),
      target('commands a lock', medianOf(own, 'commands'), '≤', 2.5),
      tail('readers'),
      tail('writers'),
    ],
  };
}
