import { randomFrom } from '../../test/support/random.js';
import { FAULTS, type Fault } from '../../test/support/chaos/faults/index.js';
import type { RunOrder } from '../../test/support/chaos/run.js';
import { STORES, type StoreName } from '../../test/support/chaos/workload/orders.js';

/** The options of the command line. */
export interface PlanOptions {
  readonly seed: number;
  /** Runs one fault for each defence, once, on one store and with its defence. */
  readonly quick: boolean;
  /** Runs only the faults whose name contains this. */
  readonly fault?: string;
  readonly store?: StoreName;
  /** How many runs each fault has on each store, with a seed each. Default: 1. */
  readonly runs?: number;
}

/** The store of the controls, because the ablations replace parts of its scripts. A quick run has no other. */
const CONTROLLED: StoreName = 'token';

/** The faults of a quick run: the first one of each defence. */
const QUICK: readonly Fault[] = FAULTS.filter(({ ablation }, i) => {
  return FAULTS.findIndex((fault) => fault.ablation === ablation) === i;
});

/** Returns all runs and their controls. The same options give the same runs. */
export function planOf({ seed, quick, fault: part, store: only, runs: count = 1 }: PlanOptions): readonly RunOrder[] {
  const random = randomFrom(seed);
  return FAULTS.flatMap((fault) =>
    STORES.flatMap((store) => {
      // Drawn even if the fault is not run, so that `--fault` repeats a run of all faults.
      const seeds = { run: draw(random), control: draw(random) };
      const wanted = part === undefined || fault.name.includes(part);
      if (!wanted || fault.stores[store] === undefined || (only ?? store) !== store) return [];
      if (quick && (store !== CONTROLLED || !QUICK.includes(fault))) return [];
      const runs = Array.from({ length: quick ? 1 : count }, (_, i) => seeds.run + i);
      const orders = runs.map((runSeed) => ({ fault, store, seed: runSeed, control: false }));
      if (quick || store !== CONTROLLED) return orders;
      return [...orders, { fault, store, seed: seeds.control, control: true }];
    }),
  );
}

function draw(random: () => number): number {
  return Math.floor(random() * 2 ** 31);
}
