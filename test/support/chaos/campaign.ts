import { Misbehaviour, run, type RunOrder, type RunResult } from './run.js';

/** The result of a control, and how many runs it took. */
export interface Control {
  readonly result: RunResult;
  readonly attempts: number;
}

/** The results of all runs. */
export interface Campaign {
  readonly runs: readonly RunResult[];
  readonly controls: readonly Control[];
  /** Broken promises, controls that broke nothing, and runs that did not end. */
  readonly failures: readonly string[];
}

/** How orders are run. */
export interface Conduct {
  /** How many orders run at a time. */
  readonly jobs: number;
  readonly say: (line: string) => void;
  readonly run?: (order: RunOrder) => Promise<RunResult>;
}

/** How often a control may run until it breaks its promise. */
const ATTEMPTS = 3;

export async function carryOut(
  orders: readonly RunOrder[],
  { jobs, say, run: runOne = run }: Conduct,
): Promise<Campaign> {
  // Indexed by order: runs end in any order.
  const runs: RunResult[] = [];
  const controls: Control[] = [];
  const failures: string[] = [];
  const carriedOut = async (order: RunOrder, place: number): Promise<string | undefined> => {
    if (order.control) {
      const control = await breaking(order, runOne);
      if (typeof control === 'string') return control;
      controls[place] = control;
      return undefined;
    }
    const result = await runOne(order);
    runs[place] = result;
    return breachText(result);
  };
  const waiting = orders.entries();
  const work = async (): Promise<void> => {
    for (const [i, order] of waiting) {
      const begunAt = performance.now();
      const failure = await insistently(() => carriedOut(order, i), say).catch((error: Error) => String(error.stack));
      if (failure !== undefined) failures.push(`${nameOf(order)}: ${failure}`);
      const seconds = ((performance.now() - begunAt) / 1_000).toFixed(0);
      say(`${i + 1}/${orders.length} ${nameOf(order)}, ${seconds} s${failure === undefined ? '' : `: ${failure}`}`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  return { runs: runs.filter(Boolean), controls: controls.filter(Boolean), failures };
}

/** Runs an order again if it could not be run, because a server's port was taken for example. */
async function insistently<T>(carryOutOne: () => Promise<T>, say: (line: string) => void): Promise<T> {
  try {
    return await carryOutOne();
  } catch (error) {
    if (error instanceof Misbehaviour) throw error;
    say(`once more, after ${String((error as Error).stack)}`);
    return carryOutOne();
  }
}

function nameOf({ fault, store, seed, control }: RunOrder): string {
  return `${fault.name}, ${store}, seed ${seed}${control ? `, without ${fault.ablation}` : ''}`;
}

/** Returns the breaches as text, if there are any. */
function breachText({ breaches }: RunResult): string | undefined {
  if (breaches.size === 0) return undefined;
  return [...breaches].map(([breach, what]) => `${breach}: ${what}`).join('; ');
}

/** Runs a control until it breaks its promise. Returns a complaint if it never does. */
async function breaking(order: RunOrder, runOne: (order: RunOrder) => Promise<RunResult>): Promise<Control | string> {
  const { breaks } = order.fault;
  let broken: readonly string[] = [];
  for (let attempts = 1; attempts <= ATTEMPTS; attempts += 1) {
    const result = await runOne({ ...order, seed: order.seed + attempts - 1 });
    if (result.breaches.has(breaks)) return { result, attempts };
    broken = [...result.breaches.keys()];
  }
  const others = broken.join(', ') || 'nothing';
  return `the control never broke its promise, ${breaks}, in ${ATTEMPTS} runs; broken: ${others}`;
}
