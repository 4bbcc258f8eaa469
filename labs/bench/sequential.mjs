// One task cycles on one key, without another task.
import { interleaved } from './measure.mjs';
import { roundsOf } from './settings.mjs';

const CYCLES = 250;

/** The times of one cycle, as a column of the results. */
export const sequentialColumns = [{ figure: 'us', title: 'µs a cycle', digits: 1 }];

const slicesOf = ({ quick }) => (quick ? 5 : 10);

/** Returns how the cycles are measured, for the results. */
export const sequentialMethod = (plan) =>
  `${slicesOf(plan)} times ${CYCLES} cycles a round, on one key, in a process that has run for some time.`;

/** Measures the cycles of each entry. */
export function measureCycles({ plan, entries, lockOf, part }) {
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
  return interleaved({ entries, rounds: roundsOf(plan), slices: slicesOf(plan), turn, part });
}
