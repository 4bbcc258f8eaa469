import type { Fault, Plan, Step } from './plan.js';

/** A plan that still fails, and how. */
export interface Shrunk {
  readonly plan: Plan;
  readonly violation: string;
  readonly runs: number;
}

/** Returns what a plan violates, undefined if it is sound. */
export type Judge = (plan: Plan) => Promise<string | undefined>;

/** With fewer packets the same fault may need other delays. */
const SEEDS = 3;
const MANY_RUNS = 3_000;

/** Returns the name of the violated invariant. */
export function invariantOf(violation: string): string {
  return violation.split(':', 1)[0];
}

/**
 * Takes away processes, callers, steps, faults and options as long as the plan violates the same invariant.
 * Returns the smallest plan that it has found.
 */
export async function shrink(plan: Plan, violation: string, judge: Judge): Promise<Shrunk> {
  let smallest: Shrunk = { plan, violation, runs: 0 };
  let runs = 0;
  const tryIt = async (candidate: Plan): Promise<boolean> => {
    for (let nth = 0; nth < SEEDS && runs < MANY_RUNS; nth += 1) {
      runs += 1;
      const reseeded = { ...candidate, seed: candidate.seed + nth };
      const found = await judge(reseeded);
      if (found === undefined || invariantOf(found) !== invariantOf(violation)) continue;
      smallest = { plan: reseeded, violation: found, runs };
      return true;
    }
    return false;
  };
  const pass = async (): Promise<void> => {
    for (let nth = 0; ;) {
      const candidate = candidateOf(smallest.plan, nth);
      if (candidate === undefined) return;
      if (candidate === smallest.plan || !(await tryIt(candidate))) nth += 1;
    }
  };
  // What was needed before may be of no use now.
  let before: Plan;
  do {
    before = smallest.plan;
    await pass();
  } while (smallest.plan !== before);
  return { ...smallest, runs };
}

/** Returns the nth smaller plan. The same plan if that way changes nothing. Undefined after the last way. */
function candidateOf(plan: Plan, nth: number): Plan | undefined {
  const { processes, callers, faults } = plan;
  let rest = nth;
  const isOne = (count: number): boolean => {
    if (rest < count) return true;
    rest -= count;
    return false;
  };
  if (isOne(processes.length)) return processes.length === 1 ? plan : withoutProcess(plan, rest);
  if (isOne(callers.length)) return { ...plan, callers: without(callers, rest) };
  if (isOne(faults.length)) return { ...plan, faults: without(faults, rest) };
  for (const [at, { steps }] of callers.entries())
    if (isOne(steps.length))
      return { ...plan, callers: replacedAt(callers, at, { ...callers[at], steps: without(steps, rest) }) };
  for (const [at, { steps }] of callers.entries())
    for (const [place, step] of steps.entries())
      if (isOne(SIMPLER.length)) {
        const simpler = SIMPLER[rest](step);
        if (simpler === step) return plan;
        const changed = { ...callers[at], steps: replacedAt(steps, place, simpler) };
        return { ...plan, callers: replacedAt(callers, at, changed) };
      }
  if (isOne(PLAINER.length)) return PLAINER[rest](plan);
  return undefined;
}

/** Each returns the same step if there is nothing to take away. */
const SIMPLER: readonly ((step: Step) => Step)[] = [
  (step) => (step.kind === 'acquire' && step.keys.length > 1 ? { ...step, keys: step.keys.slice(0, -1) } : step),
  (step) => (step.kind === 'acquire' && step.abortAfterMs !== undefined ? omit(step, 'abortAfterMs') : step),
  (step) => (step.kind === 'acquire' && step.extendTo !== undefined ? omit(step, 'extendTo') : step),
  (step) => (step.kind === 'acquire' && step.nests !== undefined ? omit(step, 'nests') : step),
  (step) => (step.kind === 'acquire' && step.maxWaiting !== undefined ? omit(step, 'maxWaiting') : step),
  (step) => (step.kind === 'acquire' && step.minHoldMs > 0 ? { ...step, minHoldMs: 0 } : step),
  (step) => (step.kind === 'acquire' && step.maxHoldMs !== Infinity ? { ...step, maxHoldMs: Infinity } : step),
  (step) => (step.kind === 'acquire' && step.mode !== 'exclusive' ? { ...step, mode: 'exclusive' } : step),
  (step) => (step.kind === 'acquire' && step.waitMs !== Infinity ? { ...step, waitMs: Infinity } : step),
  (step) => (step.kind === 'acquire' && step.workMs > 0 ? { ...step, workMs: 0 } : step),
  (step) => (step.pauseMs > 0 ? { ...step, pauseMs: 0 } : step),
];

const EVEN = { rate: 1, offsetMs: 0 };
const isEven = ({ rate }: { readonly rate: number }): boolean => rate === 1;

/** Each returns the same plan if there is nothing to take away. */
const PLAINER: readonly ((plan: Plan) => Plan)[] = [
  (plan) => (plan.network.reorders ? { ...plan, network: { ...plan.network, reorders: false } } : plan),
  (plan) => (plan.network.delayMs > 1 ? { ...plan, network: { ...plan.network, delayMs: 1 } } : plan),
  (plan) => (plan.lockDelayMs > 0 ? { ...plan, lockDelayMs: 0 } : plan),
  (plan) => (plan.strict ? { ...plan, strict: false } : plan),
  (plan) => (plan.mostInFlight === undefined ? plan : omit(plan, 'mostInFlight')),
  (plan) => {
    const isPlain = plan.servers.every(isEven) && plan.processes.every(isEven);
    return isPlain
      ? plan
      : { ...plan, servers: plan.servers.map(() => EVEN), processes: plan.processes.map(() => EVEN) };
  },
  (plan) =>
    plan.servers.length === 1
      ? plan
      : {
          ...plan,
          servers: plan.servers.slice(0, 1),
          faults: plan.faults.map((fault) => ('server' in fault ? { ...fault, server: 0 } : fault)),
        },
];

function withoutProcess(plan: Plan, process: number): Plan {
  const place = (nth: number): number => (nth > process ? nth - 1 : nth);
  const stays = (fault: Fault): boolean => !('process' in fault) || fault.process !== process;
  return {
    ...plan,
    processes: without(plan.processes, process),
    callers: plan.callers
      .filter((caller) => caller.process !== process)
      .map((caller) => ({ ...caller, process: place(caller.process) })),
    faults: plan.faults
      .filter(stays)
      .map((fault) => ('process' in fault ? { ...fault, process: place(fault.process) } : fault)),
  };
}

function without<T>(list: readonly T[], place: number): readonly T[] {
  return list.toSpliced(place, 1);
}

function replacedAt<T>(list: readonly T[], place: number, by: T): readonly T[] {
  return list.with(place, by);
}

function omit<T extends object>(from: T, name: keyof T): T {
  const { [name]: _, ...rest } = from;
  return rest as T;
}
