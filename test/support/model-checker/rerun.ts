import { choices } from './choices.js';
import { check } from './invariants.js';
import type { Scenario } from './scenario.js';
import { settle } from './settle.js';
import { World } from './world.js';

export interface Violation {
  readonly what: string;
  /** The labels of the steps, in order. */
  readonly run: readonly string[];
}

/**
 * Runs steps again, from the beginning and without going back. Returns undefined if one of them is not possible.
 */
export function rerun(scenario: Scenario, run: readonly string[]): World | undefined {
  const world = new World(scenario);
  for (const label of run) {
    const choice = choices(world).find((one) => one.label === label);
    if (choice === undefined) return undefined;
    choice.take();
    check(world);
    if (world.violation !== undefined) return world;
  }
  return world;
}

/** Returns the violation that a run leads to in the end, if any. */
export function outcome(scenario: Scenario, run: readonly string[]): string | undefined {
  const world = rerun(scenario, run);
  if (world === undefined) return undefined;
  if (world.violation === undefined) settle(world);
  return world.violation;
}

/** Removes steps from a run that its violation does not need. The violated invariant stays the same. */
export function shorten(scenario: Scenario, violation: Violation): Violation {
  let shortest = violation;
  for (
    let shorter: Violation | undefined = violation;
    shorter !== undefined;
    shorter = oneShorter(scenario, shortest)
  ) {
    shortest = shorter;
  }
  return shortest;
}

function oneShorter(scenario: Scenario, { what, run }: Violation): Violation | undefined {
  for (const dispensable of candidates(run)) {
    const shorter = run.filter((_, i) => !dispensable.has(i));
    const found = outcome(scenario, shorter);
    if (found !== undefined && invariantOf(found) === invariantOf(what)) return { what: found, run: shorter };
  }
  return undefined;
}

/** Returns sets of steps to try without, the largest first. */
function candidates(run: readonly string[]): ReadonlySet<number>[] {
  const all = run.map((_, i) => i);
  const whose = (i: number): string => run[i].slice(0, 2);
  const lines = [...new Set(all.map(whose))].map((process) => all.filter((i) => whose(i) === process));
  const windows = [all, ...lines].flatMap((steps) =>
    steps.flatMap((_, from) => steps.slice(from).map((__, length) => steps.slice(from, from + length + 1))),
  );
  return windows.toSorted((a, b) => b.length - a.length).map((steps) => new Set(steps));
}

/** Returns the name of the invariant, with which a violation begins. */
export function invariantOf(what: string): string {
  return what.slice(0, what.indexOf(':'));
}

/** Returns a violation as text: the fewest steps that lead there, and the steps that follow without a fault. */
export function told(scenario: Scenario, violation: Violation): string {
  const { what, run } = shorten(scenario, violation);
  const world = rerun(scenario, run);
  const steps: string[] = [];
  if (world?.violation === undefined && world !== undefined) settle(world, undefined, steps);
  const numbered = run.map((step, i) => `${String(i + 1).padStart(3)}. ${step}`);
  return [what, ...numbered, ...steps.map((step) => `   > ${step}`)].join('\n');
}
