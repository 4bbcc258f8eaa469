// Tasks that lock keys of their own.
import { ownCpuMs, serverCpuMs } from './cpu.mjs';
import { interleaved } from './measure.mjs';
import { roundsOf } from './settings.mjs';

export const parallelColumns = [
  { figure: 'perSecond', title: 'cycles/s', digits: 0 },
  { figure: 'cpuUs', title: 'µs of CPU a cycle', digits: 1 },
  { figure: 'serverUs', title: "µs of the server's CPU a cycle", digits: 1 },
];

/**
 * Measures the entries in turns.
 *
 * @param {object} options
 * @param {import('./settings.mjs').Plan} options.plan
 * @param {readonly import('./entries/index.mjs').Entry[]} options.entries
 * @param {(entry: object) => import('./entries/index.mjs').Opened} options.lockOf
 * @param {number} options.tasks
 * @param {(task: number) => string} [options.keyOf] the key of a task
 * @param {readonly object[]} options.admins a client of each server
 * @param {[number, number]} [options.part] for the progress
 */
export async function measureKeys({ plan, entries, lockOf, tasks, keyOf = (task) => `goods:${task}`, admins, part }) {
  const [slices, lengthMs] = plan.quick ? [2, 120] : [4, 125];
  const keys = Array.from({ length: tasks }, (_, task) => keyOf(task));
  const cycleAll = async (entry, forMs) => {
    const lock = lockOf(entry);
    const waits = [];
    const serverBefore = await serverCpuMs(admins);
    const cpuBefore = process.cpuUsage();
    const start = performance.now();
    const stopAt = start + forMs;
    const cycles = async (key) => {
      for (let last = start; last < stopAt;) {
        await lock.cycle(key);
        const end = performance.now();
        waits.push(end - last);
        last = end;
      }
    };
    await Promise.all(keys.map(cycles));
    const took = performance.now() - start;
    const cpuMs = ownCpuMs(cpuBefore);
    const serverMs = (await serverCpuMs(admins)) - serverBefore;
    const count = waits.length;
    const figures = { perSecond: count / (took / 1000), cpuUs: (cpuMs / count) * 1000 };
    return { figures: { ...figures, serverUs: (serverMs / count) * 1000 }, waits };
  };
  // The code of every entry is compiled by then.
  for (const entry of entries) if (entry.variantOf === undefined) await cycleAll(entry, 4 * lengthMs);
  const turn = (entry) => cycleAll(entry, lengthMs);
  return interleaved({ entries, rounds: roundsOf(plan), slices, turn, part });
}
