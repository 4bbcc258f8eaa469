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
  /** How often each fault is injected on each store. Default: 1. */
  readonly runs?: number;
}

/** The store of the controls, because the ablations replace parts of its scripts. A quick run has no other. */
const CONTROLLED: StoreName = 'token';
const RUNS = 1;

/** The faults of a quick run: the first one of each defence. */
const QUICK: readonly Fault[] = FAULTS.filter(({ ablation }, i) => {
  return FAULTS.findIndex((fault) => fault.ablation === ablation) === i;
});

/** Returns all runs and their controls. The same options give the same runs. */
export function planOf({ seed, quick, fault: part, store: only, runs: count }: PlanOptions): readonly RunOrder[] {
  const random = randomFrom(seed);
  return FAULTS.flatMap((fault) =>
    STORES.flatMap((store) => {
      // Drawn even if the fault is not run, so that `--fault` repeats a run of all faults.
      const seeds = { run: draw(random), control: draw(random) };
      const wanted = part === undefined || fault.name.includes(part);
      if (!wanted || fault.stores[store] === undefined || (only ?? store) !== store) return [];
      if (quick && (store !== CONTROLLED || !QUICK.includes(fault))) return [];
      const runs = runsOf(fault, store, seeds.run, quick ? 1 : (count ?? RUNS));
      if (quick) return runs;
      const control = { fault, store, seed: seeds.control, times: 1, control: true };
      return store === CONTROLLED ? [...runs, control] : runs;
    }),
  );
}

function draw(random: () => number): number {
  return Math.floor(random() * 2 ** 31);
}

/** A fault that uses up its servers, or takes long, is injected once in a run, and has several runs. */
function runsOf(fault: Fault, store: StoreName, seed: number, count: number): readonly RunOrder[] {
  const order = { fault, store, control: false };
  if (!fault.mixed && !fault.once && fault.on === undefined) return [{ ...order, seed, times: count }];
  return Array.from({ length: count }, (_, i) => ({ ...order, seed: seed + i, times: 1 }));
}
