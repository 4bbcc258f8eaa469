import { instanceOf } from '../../lib/core/store/lock-store.js';
import { type Choice, ordinary } from './choices.js';
import { check } from './invariants.js';
import type { World } from './world.js';

/** How long it still takes from the present state on, where that is known already. */
type Rest = () => number | undefined;

/**
 * Lets a run come to its end with nothing going wrong any more: everything arrives at once, and time passes only when
 * nothing else is left to do. Then everybody must have been granted and nothing may be left over; if not, there is a state
 * from which somebody waits for ever. Answers how long that took.
 *
 * @param steps is told of everything that happens.
 */
export function settle(world: World, restOf: Rest = () => undefined, steps: string[] = []): number {
  const begin = world.time.now;
  const passed = (): number => world.time.now - begin;
  while (world.violation === undefined) {
    const rest = restOf();
    if (rest !== undefined) {
      checkPatience(world, passed() + rest);
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
    checkPatience(world, passed());
  }
  return passed();
}

/** Whatever can happen at once, and time only where that is nothing. */
function nextOf(world: World): Choice | undefined {
  const [next] = ordinary(world);
  if (next !== undefined) return next;
  const [moment] = world.moments();
  if (moment === undefined) return undefined;
  return { label: `${moment - world.time.now} ms pass`, take: () => world.moveTo(moment) };
}

function checkPatience(world: World, passedMs: number): void {
  if (passedMs <= patience(world)) return;
  const stuck = waits(world) || 'nobody waits, but the key is closed, or something else is left,';
  world.violate(`progress: ${passedMs} ms after the last mishap ${stuck} still`);
}

function patience({ scenario, strays }: World): number {
  // A stray ask may have locked for nobody: nothing but its lease ends that.
  return scenario.settlesWithinMs + (strays.length > 0 ? scenario.leaseMs : 0);
}

function checkQuiet(world: World): void {
  const waiting = waits(world);
  if (waiting) return world.violate(`progress: nothing is left to happen, and ${waiting}`);
  for (const { instanceId, localLock, hold, alive } of world.processes) {
    if (localLock !== undefined || hold !== undefined) {
      world.violate(`tidiness: ${instanceId} keeps a local lock or a hold`);
    }
    const queued = world.queue.some(({ owner }) => instanceOf(owner) === instanceId && !world.strays.includes(owner));
    if (alive && queued) world.violate(`tidiness: ${instanceId} stands in the queue, and waits no more`);
  }
}

function waits(world: World): string {
  const waiting = world.processes.filter((process) => process.waiting !== undefined);
  return waiting.map(({ instanceId }) => `${instanceId} waits`).join(' and ');
}
