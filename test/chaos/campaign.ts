import { Misbehaviour, run, type RunOrder, type RunResult } from './run.js';

/** What a control has shown. */
export interface Control {
  readonly result: RunResult;
  readonly attempts: number;
}

/** What all runs have shown. */
export interface Campaign {
  readonly runs: readonly RunResult[];
  readonly controls: readonly Control[];
  /** Whatever must not be: promises that were broken, controls that kept theirs, runs that came to no end. */
  readonly failures: readonly string[];
}

/** A control may be lucky, but not again and again. */
const ATTEMPTS = 3;

/** Carries out the orders, `jobs` at a time. */
export async function carryOut(
  orders: readonly RunOrder[],
  jobs: number,
  say: (line: string) => void,
): Promise<Campaign> {
  // By the places of their orders: they end in any order.
  const runs: RunResult[] = [];
  const controls: Control[] = [];
  const failures: string[] = [];
  const waiting = orders.entries();
  const work = async (): Promise<void> => {
    for (const [i, order] of waiting) {
      const begunAt = performance.now();
      const failure = await insistently(() => carryOutOne(order, i, runs, controls), say).catch((error: Error) =>
        String(error.stack),
      );
      if (failure !== undefined) failures.push(`${nameOf(order)}: ${failure}`);
      const seconds = ((performance.now() - begunAt) / 1_000).toFixed(0);
      say(`${i + 1}/${orders.length} ${nameOf(order)}, ${seconds} s${failure === undefined ? '' : `: ${failure}`}`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  return { runs: runs.filter(Boolean), controls: controls.filter(Boolean), failures };
}

/** What could not be carried out, because a server's port was taken for example, says nothing: it is tried once more. */
async function insistently<T>(run: () => Promise<T>, say: (line: string) => void): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof Misbehaviour) throw error;
    say(`once more, because of ${String((error as Error).stack)}`);
    return run();
  }
}

export function nameOf({ fault, store, seed, control }: RunOrder): string {
  return `${fault.name}, ${store}, seed ${seed}${control ? `, without ${fault.defence}` : ''}`;
}

/** Answers what is wrong, if anything is. */
async function carryOutOne(order: RunOrder, place: number, runs: RunResult[], controls: Control[]) {
  if (order.control) return runControl(order, place, controls);
  const result = await run(order);
  runs[place] = result;
  if (result.breaches.size === 0) return undefined;
  return [...result.breaches].map(([breach, what]) => `${breach}: ${what}`).join('; ');
}

async function runControl(order: RunOrder, place: number, controls: Control[]): Promise<string | undefined> {
  const { breaks } = order.fault;
  let result: RunResult | undefined;
  for (let attempts = 1; attempts <= ATTEMPTS; attempts += 1) {
    result = await run({ ...order, seed: order.seed + attempts - 1 });
    if (!result.breaches.has(breaks)) continue;
    controls[place] = { result, attempts };
    return undefined;
  }
  const broken = [...(result?.breaches.keys() ?? [])].join(', ');
  return `the control never broke what it should, ${breaks}, in ${ATTEMPTS} runs; broken: ${broken || 'nothing'}`;
}
