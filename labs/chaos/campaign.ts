import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { type Fault, FAULTS } from '../../test/support/chaos/faults/index.js';
import { Misbehaviour, nameOf, type RunOrder, type RunResult } from '../../test/support/chaos/run.js';
import { STORES, type StoreName } from '../../test/support/chaos/workload/orders.js';
import { randomFrom } from '../../test/support/random.js';

/** What is run. */
export interface Plan {
  readonly seed: number;
  /** Runs one fault for each defence, once, on one store and with its defence. */
  readonly quick: boolean;
  /** Runs only the faults whose name contains this. */
  readonly fault?: string | undefined;
  readonly store?: StoreName | undefined;
  /** How many runs each fault has on each store, with a seed each. Default: 1. */
  readonly runs?: number;
}

/** The store of the controls, because the ablations replace parts of its scripts. A quick run has no other. */
const CONTROLLED = 'token';
/** How often a control may run until it breaks its promise. */
const ATTEMPTS = 3;

/** The first fault of each defence. */
export const QUICK: readonly Fault[] = FAULTS.filter(({ control }, i) => {
  return FAULTS.findIndex((fault) => fault.control.without === control.without) === i;
});

/** Returns the stores that a fault applies to. */
export function storesOf({ others }: Fault): readonly StoreName[] {
  return STORES.filter((store) => store === CONTROLLED || others?.[store] !== undefined);
}

/** Returns all runs and their controls. The same options give the same runs. */
export function planOf({ seed, quick, fault: part = '', store: only, runs = 1 }: Plan): readonly RunOrder[] {
  const random = randomFrom(seed);
  const draw = (): number => Math.floor(random() * 2 ** 31);
  return FAULTS.flatMap((fault) =>
    storesOf(fault).flatMap((store) => {
      // Drawn even if the fault is not run, so that `--fault` repeats a run of all faults.
      const seeds = { run: draw(), control: draw() };
      const isControlled = store === CONTROLLED;
      if (!fault.name.includes(part) || (only ?? store) !== store) return [];
      if (quick && !(isControlled && QUICK.includes(fault))) return [];
      const count = quick ? 1 : runs;
      const orders = Array.from({ length: count }, (_, i) => ({ fault, store, seed: seeds.run + i, control: false }));
      return quick || !isControlled ? orders : [...orders, { fault, store, seed: seeds.control, control: true }];
    }),
  );
}

/** The results of all orders, by their places, and what went wrong. */
export interface Campaign {
  readonly results: readonly RunResult[];
  /** Broken promises, controls that broke nothing, and runs that did not end. */
  readonly failures: readonly string[];
}

/** How orders are run. */
export interface Conduct {
  /** How many orders run at a time. */
  readonly jobs: number;
  readonly say: (line: string) => void;
  readonly run: (order: RunOrder) => Promise<RunResult>;
}

export async function carryOut(orders: readonly RunOrder[], { jobs, say, run }: Conduct): Promise<Campaign> {
  // Indexed by order: runs end in any order.
  const results: RunResult[] = [];
  const failures: string[] = [];
  /** Runs an order again if it could not be run, because a server's port was taken for example. */
  const insistently = (order: RunOrder): Promise<RunResult> =>
    run(order).catch((error: unknown) => {
      if (error instanceof Misbehaviour) throw error;
      say(`once more, after ${String((error as Error).stack)}`);
      return run(order);
    });
  const carriedOut = async (order: RunOrder, i: number): Promise<string | undefined> => {
    const { control, breaks } = { ...order, ...order.fault.control };
    for (let attempt = 0; attempt < (control ? ATTEMPTS : 1); attempt += 1) {
      results[i] = await insistently({ ...order, seed: order.seed + attempt });
      if (results[i].breaches.has(breaks)) break;
    }
    const { breaches } = results[i];
    const found = [...breaches].map(([breach, what]) => `${breach}: ${what}`).join('; ');
    if (!control) return found || undefined;
    return breaches.has(breaks) ? undefined : `${ATTEMPTS} runs broke no promise of the kind ${breaks}. ${found}`;
  };
  const waiting = orders.entries();
  const work = async (): Promise<void> => {
    for (const [i, order] of waiting) {
      const begunAt = performance.now();
      const failure = await carriedOut(order, i).catch((error: unknown) => String((error as Error).stack));
      if (failure !== undefined) failures.push(`${nameOf(order)}: ${failure}`);
      const seconds = ((performance.now() - begunAt) / 1_000).toFixed(0);
      say(`${i + 1}/${orders.length} ${nameOf(order)}, ${seconds} s${failure === undefined ? '' : `: ${failure}`}`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  return { results: results.filter(Boolean), failures };
}

/** A result without its order, whose functions cannot be written to a file. */
interface KeptRun extends Omit<RunResult, 'order'> {
  readonly name: string;
  readonly commit: string;
}

/**
 * The file with the results of a campaign. A campaign that was interrupted, or failed by a run, continues from it.
 * Runs that broke a promise are not kept. Controls are.
 */
export class KeptRuns {
  private readonly kept = new Map<string, KeptRun>();

  private readonly file: string;

  /** @param resume reads what an earlier campaign with this seed kept. Otherwise it is removed. */
  constructor(
    seed: number,
    private readonly commit: string,
    resume: boolean,
  ) {
    const file = join(tmpdir(), 'chaos-runs', `seed-${seed}`);
    this.file = file;
    if (!resume) rmSync(file, { force: true });
    const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
    const runs = lines.map((line) => deserialize(Buffer.from(line, 'base64')) as KeptRun);
    for (const run of runs) this.kept.set(run.name, run);
  }

  /** How many results there are. */
  get size(): number {
    return this.kept.size;
  }

  /** The commits of all results. */
  get commits(): string {
    return [...new Set([...this.kept.values()].map(({ commit }) => commit))].join(', ');
  }

  /** Returns the kept result of the order. Without one, runs the order and keeps its result. */
  async run(order: RunOrder, runOne: (order: RunOrder) => Promise<RunResult>): Promise<RunResult> {
    const name = nameOf(order);
    const kept = this.kept.get(name);
    if (kept !== undefined) return { ...kept, order };
    const { order: _, ...result } = await runOne(order);
    if (order.control || result.breaches.size === 0) {
      const run = { ...result, name, commit: this.commit };
      this.kept.set(name, run);
      mkdirSync(dirname(this.file), { recursive: true });
      // Serialized by V8: JSON has no maps, no undefined and no infinity.
      appendFileSync(this.file, `${serialize(run).toString('base64')}\n`);
    }
    return { ...result, order };
  }
}
