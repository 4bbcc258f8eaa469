import type { Leftover } from './network.js';
import type { LossKind } from './scenario.js';
import type { Process } from './process.js';
import type { World } from './world.js';

/** A step that can happen next. */
export interface Choice {
  /** The same in every run that reaches it. */
  readonly label: string;
  readonly take: () => void;
}

/** Returns the steps that happen without a fault and without the passing of time. */
export function ordinary(world: World): Choice[] {
  const found: Choice[] = [];
  for (const process of world.processes) {
    const { instanceId: name, line, clock } = process;
    const may = (possible: unknown, what: string, take: () => void): void => {
      if (possible) found.push({ label: `${name} ${what}`, take: step(process, take) });
    };
    const [request] = line.requests;
    if (request !== undefined) may(true, `${request.verb} runs on the server`, () => world.run(process));
    may(line.replies.length, 'gets a reply', () => line.deliverReply());
    may(line.messages.length, 'receives a message', () => process.receive());
    may(clock.due, 'fires a timer', () => clock.fire());
    may(process.alive && line.subscription !== 'open', 'subscribes again', () => process.subscribe());
    may(process.callersLeft, 'has a caller arrive', () => process.enter());
    process.holds.forEach((hold, i) => {
      may(true, i === 0 ? 'ends its hold' : `ends its hold ${i + 1}`, () => process.endHold(hold));
    });
  }
  for (const leftover of world.leftovers) {
    found.push({ label: `${nameOf(leftover)} runs on the server`, take: () => world.runLeftover(leftover) });
  }
  return found;
}

/** Returns every step that can happen next, within the bounds of the scenario. */
export function choices(world: World): Choice[] {
  const all = ordinary(world);
  for (const leftover of world.leftovers) {
    all.push({
      label: `${nameOf(leftover)} never runs, nor what was sent after it`,
      take: () => world.drop(leftover),
    });
  }
  if (world.left.moves > 0) all.push(...moves(world));
  if (world.left.forces > 0 && world.holders.length > 0) all.push({ label: FORCE, take: () => force(world) });
  for (const process of world.processes) if (process.alive) all.push(...faults(world, process));
  return all;
}

const FORCE = 'somebody releases the lock by force';

function force(world: World): void {
  world.left.forces -= 1;
  for (const process of world.processes) process.touch();
  world.force();
}

function nameOf({ connection, requests: [{ verb, body }] }: Leftover): string {
  return `${body.owner}'s ${verb} on closed connection ${connection}`;
}

/** Returns the moves of the clock. Timers that become due meanwhile fire later, as on a machine that slept. */
function moves(world: World): Choice[] {
  return world.moments().map((moment) => ({
    label: `${moment - world.time.now} ms pass`,
    take: () => {
      world.left.moves -= 1;
      world.moveTo(moment);
    },
  }));
}

function faults(world: World, process: Process): Choice[] {
  const { left } = world;
  const { instanceId: name, waiting } = process;
  const found: Choice[] = [];
  const kinds = left.losses > 0 ? world.scenario.losses : [];
  for (const { label, happen } of kinds.map((kind) => FAULTS[kind]).filter(({ possible }) => possible(process))) {
    const take = (): void => {
      left.losses -= 1;
      happen(process, world);
    };
    found.push({ label: `${name} ${label}`, take: step(process, take) });
  }
  if (left.crashes > 0) {
    for (const noticed of [true, false]) {
      const take = (): void => {
        left.crashes -= 1;
        process.touch();
        world.crash(process, noticed);
      };
      found.push({ label: `${name} crashes${noticed ? '' : ', and the server does not notice'}`, take });
    }
  }
  if (left.leaves > 0 && waiting !== undefined) {
    const take = (): void => {
      left.leaves -= 1;
      waiting.leave?.();
    };
    found.push({ label: `${name} has a waiting caller abort`, take: step(process, take) });
  }
  return found;
}

interface Fault {
  readonly label: string;
  /** Returns whether the process has something to lose. */
  readonly possible: (process: Process) => boolean;
  readonly happen: (process: Process, world: World) => void;
}

const FAULTS: Readonly<Record<LossKind, Fault>> = {
  message: {
    label: 'loses a message',
    possible: ({ line }) => line.messages.length > 0,
    happen: ({ line }) => void line.messages.shift(),
  },
  duplicate: {
    label: 'receives a message that will arrive again',
    possible: ({ line }) => line.messages.length > 0,
    happen: (process) => process.receiveCopy(),
  },
  reset: {
    label: 'loses its connection',
    possible: ({ line }) => line.requests.length + line.replies.length > 0,
    happen: (process, world) => world.reset(process),
  },
  subscription: {
    label: 'loses its subscription',
    possible: () => true,
    happen: (process) => cutSubscription(process, 'closed'),
  },
  'half-open': {
    label: 'has a half-open subscription',
    possible: () => true,
    happen: (process) => cutSubscription(process, 'half-open'),
  },
};

function cutSubscription({ line }: Process, to: 'closed' | 'half-open'): void {
  line.subscription = to;
  line.messages = [];
}

function step(process: Process, take: () => void): () => void {
  return () => {
    process.touch();
    take();
    process.afterStep();
  };
}
