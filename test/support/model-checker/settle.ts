import { instanceOf } from '../../../lib/core/store/instance-id.js';
import { type Choice, ordinary } from './choices.js';
import { check } from './invariants.js';
import type { World } from './world.js';

/** Returns how many milliseconds the current state takes to settle, if that is known. */
type Rest = () => number | undefined;

/**
 * Runs to the end without further faults: everything arrives at once, and time passes only if nothing else can happen.
 * Every caller must be granted and nothing may be left over. Otherwise it is a violation: a caller can wait forever.
 * Returns how many milliseconds of the model that took.
 *
 * @param steps receives the label of each step.
 */
export function settle(world: World, restOf: Rest = () => undefined, steps: string[] = []): number {
  const begin = world.time.now;
  const passed = (): number => world.time.now - begin;
  while (world.violation === undefined) {
    const rest = restOf();
    if (rest !== undefined) {
      checkDuration(world, passed() + rest);
      return passed() + rest;
    }
    const next = nextOf(world);
    if (next === undefined) {
      checkQuiet(world);
      break;
    }
    steps.push(next.label);
    next.take();
    check(world);
    checkDuration(world, passed());
  }
  return passed();
}

/** Returns a step that can happen at once, or the passing of time if there is none. */
function nextOf(world: World): Choice | undefined {
  const [next] = ordinary(world);
  if (next !== undefined) return next;
  const [moment] = world.moments();
  if (moment === undefined) return undefined;
  return { label: `${moment - world.time.now} ms pass`, take: () => world.moveTo(moment) };
}

function checkDuration(world: World, passedMs: number): void {
  if (passedMs <= allowedMs(world)) return;
  const stuck = waits(world) || 'no caller waits, but the key is locked, or something else is left,';
  world.violate(`progress: ${passedMs} ms after the last fault ${stuck} still`);
}

function allowedMs({ scenario, strays }: World): number {
  // A stray request may have locked the key for no caller. Only its lease ends that.
  return scenario.settlesWithinMs + (strays.length > 0 ? scenario.leaseMs : 0);
}

function checkQuiet(world: World): void {
  const waiting = waits(world);
  if (waiting) return world.violate(`progress: nothing is left to happen, and ${waiting}`);
  for (const { instanceId, lines, holds, alive } of world.processes) {
    if (lines.size > 0 || holds.length > 0) world.violate(`tidiness: ${instanceId} keeps a line or a hold`);
    const queued = world.queue.some(({ owner }) => instanceOf(owner) === instanceId && !world.strays.includes(owner));
    if (alive && queued) world.violate(`tidiness: ${instanceId} is in the queue, and does not wait`);
  }
}

function waits(world: World): string {
  const waiting = world.processes.filter((process) => process.waiting !== undefined);
  return waiting.map(({ instanceId }) => `${instanceId} waits`).join(' and ');
}
