import { choices } from './choices.js';
import { check } from './invariants.js';
import type { Scenario } from './scenario.js';
import { settle } from './settle.js';
import { World } from './world.js';

export interface Violation {
  readonly what: string;
  /** What happened, in order. */
  readonly run: readonly string[];
}

/**
 * Runs through choices once more, from the beginning and without ever going back, then to a good end. Undefined if they do
 * not lead anywhere, that is, if one of them is not offered.
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

/** What a run comes to in the end. */
export function outcome(scenario: Scenario, run: readonly string[]): string | undefined {
  const world = rerun(scenario, run);
  if (world === undefined) return undefined;
  if (world.violation === undefined) settle(world);
  return world.violation;
}

/** Leaves out of a run what the violation does not need: steps of one process in a row. Its invariant stays the same. */
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

/** Sets of steps that might be left out together, the largest first. */
function candidates(run: readonly string[]): ReadonlySet<number>[] {
  const all = run.map((_, i) => i);
  const whose = (i: number): string => run[i].slice(0, 2);
  const lines = [...new Set(all.map(whose))].map((process) => all.filter((i) => whose(i) === process));
  const windows = [all, ...lines].flatMap((steps) =>
    steps.flatMap((_, from) => steps.slice(from).map((__, length) => steps.slice(from, from + length + 1))),
  );
  return windows.toSorted((a, b) => b.length - a.length).map((steps) => new Set(steps));
}

/** Violations begin with the name of the invariant. */
export function invariantOf(what: string): string {
  return what.slice(0, what.indexOf(':'));
}

/** For people: as few steps as lead there, a line each, and then what follows by itself. */
export function told(scenario: Scenario, violation: Violation): string {
  const { what, run } = shorten(scenario, violation);
  const world = rerun(scenario, run);
  const steps: string[] = [];
  if (world?.violation === undefined && world !== undefined) settle(world, undefined, steps);
  const numbered = run.map((step, i) => `${String(i + 1).padStart(3)}. ${step}`);
  return [what, ...numbered, ...steps.map((step) => `   > ${step}`)].join('\n');
}
