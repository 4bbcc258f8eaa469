import { randomFrom } from '../support/random.js';
import { FAULTS, type Fault } from './faults/index.js';
import type { RunOrder } from './run.js';
import { STORES, type StoreName } from './workload/orders.js';

/** The options of the command line. */
export interface PlanOptions {
  readonly seed: number;
  /** Runs each fault once, and no mixed faults. */
  readonly quick: boolean;
  /** Runs only the faults whose name contains this. */
  readonly fault?: string;
  readonly store?: StoreName;
}

/** The store of the controls: the ablations replace parts of its scripts. */
const CONTROLLED: StoreName = 'token';
const TIMES = { token: 2, others: 1 };

/** Returns all runs and their controls. The same options give the same runs. */
export function planOf({ seed, quick, fault: part, store: only }: PlanOptions): readonly RunOrder[] {
  const random = randomFrom(seed);
  return FAULTS.flatMap((fault) =>
    STORES.flatMap((store) => {
      // Drawn even if the fault is not run, so that `--fault` repeats a run of all faults.
      const seeds = { run: draw(random), control: draw(random) };
      const wanted = part === undefined ? !(quick && fault.mixed) : fault.name.includes(part);
      if (!wanted || fault.stores[store] === undefined || (only ?? store) !== store) return [];
      const run = { fault, store, seed: seeds.run, times: timesOf(fault, store, quick), control: false };
      const control = { fault, store, seed: seeds.control, times: 1, control: true };
      return store === CONTROLLED ? [run, control] : [run];
    }),
  );
}

function draw(random: () => number): number {
  return Math.floor(random() * 2 ** 31);
}

function timesOf(fault: Fault, store: StoreName, quick: boolean): number {
  if (quick || fault.mixed || fault.on !== undefined) return 1;
  return store === CONTROLLED ? TIMES.token : TIMES.others;
}
