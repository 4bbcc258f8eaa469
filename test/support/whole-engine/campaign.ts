import type { Broken } from './broken.js';
import { isCalm, type Plan, planOf } from './plan.js';
import { invariantOf, shrink, type Shrunk } from './shrink.js';
import { simulate } from './simulation.js';

/** What many runs came to. */
export interface Campaign {
  runs: number;
  /** How many of them had no fault. */
  calm: number;
  events: number;
  grants: number;
  virtualMs: number;
  /** The processor time, in milliseconds. */
  cpuMs: number;
  /** The first seed that has failed. */
  failure?: { readonly seed: number; readonly violation: string };
}

/** Runs the seeds from `from` on, until one fails or `isOver` returns true. */
export async function runSeeds(from: number, isOver: (campaign: Campaign) => boolean): Promise<Campaign> {
  const campaign: Campaign = { runs: 0, calm: 0, events: 0, grants: 0, virtualMs: 0, cpuMs: 0 };
  const before = process.cpuUsage();
  while (campaign.failure === undefined && !isOver(campaign)) {
    const seed = from + campaign.runs;
    const plan = planOf(seed);
    const { violation, events, grants, virtualMs } = await simulate(plan);
    campaign.runs += 1;
    campaign.calm += isCalm(plan) ? 1 : 0;
    campaign.events += events;
    campaign.grants += grants;
    campaign.virtualMs += virtualMs;
    const { user, system } = process.cpuUsage(before);
    campaign.cpuMs = (user + system) / 1_000;
    if (violation !== undefined) campaign.failure = { seed, violation };
  }
  return campaign;
}

/** How a broken engine was caught. */
export interface Caught {
  readonly seed: number;
  readonly violation: string;
  readonly plan: Plan;
}

/** Returns the first of the seeds from `from` on at which a broken engine is caught. Undefined if none of `most` is. */
export async function catchBroken(broken: Broken, from: number, most: number): Promise<Caught | undefined> {
  for (let seed = from; seed < from + most; seed += 1) {
    const { focus = (unchanged: Plan) => unchanged } = broken;
    const plan = focus(planOf(seed));
    const violation = await violationOf(broken, plan);
    if (violation !== undefined && broken.invariants.includes(invariantOf(violation))) return { seed, violation, plan };
  }
  return undefined;
}

/** Returns what a broken engine violates in a run of the plan. */
export async function violationOf(broken: Broken, plan: Plan): Promise<string | undefined> {
  const restore = broken.patch?.();
  try {
    return (await simulate(plan, broken)).violation;
  } finally {
    restore?.();
  }
}

/** Shrinks the plan that has caught a broken engine. */
export function shrinkCaught(broken: Broken, { plan, violation }: Caught): Promise<Shrunk> {
  return shrink(plan, violation, (smaller) => violationOf(broken, smaller));
}
