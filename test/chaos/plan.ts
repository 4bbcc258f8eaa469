import { randomFrom } from '../support/random.js';
import { FAULTS, type Fault } from './faults/index.js';
import type { RunOrder } from './run.js';
import { STORES, type StoreName } from './workload/orders.js';

/** What is asked for on the command line. */
export interface PlanOptions {
  readonly seed: number;
  /** Each fault once, the mixtures left out. */
  readonly quick: boolean;
  /** Faults whose name holds this. */
  readonly fault?: string;
  readonly store?: StoreName;
}

/** The store whose defences are switched off in controls: their replacements are made for its scripts. */
const CONTROLLED: StoreName = 'token';
const TIMES = { token: 2, others: 1 };

/** All runs and their controls. The same options give the same runs. */
export function planOf({ seed, quick, fault: part, store: only }: PlanOptions): readonly RunOrder[] {
  const random = randomFrom(seed);
  return FAULTS.flatMap((fault) =>
    STORES.flatMap((store) => {
      // Drawn whether it is run or not: `--fault` alone repeats what it did among the others.
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
