import type { Leftover } from './network.js';
import type { LossKind } from './scenario.js';
import type { Process } from './process.js';
import type { World } from './world.js';

/** One thing that may happen next. */
export interface Choice {
  /** The same in every run that comes to it. */
  readonly label: string;
  readonly take: () => void;
}

/** What happens by itself sooner or later: nobody's mishap, and no passing of time. */
export function ordinary(world: World): Choice[] {
  const found: Choice[] = [];
  for (const process of world.processes) {
    const { instanceId: name, line, clock } = process;
    const may = (possible: unknown, what: string, take: () => void): void => {
      if (possible) found.push({ label: `${name} ${what}`, take: step(process, take) });
    };
    const [request] = line.requests;
    if (request !== undefined) may(true, `${request.verb} runs on the server`, () => world.run(process));
    may(line.replies.length, 'gets its answer', () => line.deliverReply());
    may(line.messages.length, 'hears of a hand-off', () => process.receive());
    may(clock.due, 'fires a timer', () => clock.fire());
    may(process.alive && line.subscription !== 'open', 'subscribes again', () => process.subscribe());
    may(process.callersLeft, 'has a caller come', () => process.enter());
    may(process.hold, 'ends its hold', () => process.endHold());
  }
  for (const leftover of world.leftovers) {
    found.push({ label: `${nameOf(leftover)} runs on the server`, take: () => world.runLeftover(leftover) });
  }
  return found;
}

/** Everything that may happen next, within the bounds of the scenario. */
export function choices(world: World): Choice[] {
  const all = ordinary(world);
  for (const leftover of world.leftovers) {
    all.push({
      label: `${nameOf(leftover)} never runs, nor what was sent behind it`,
      take: () => world.drop(leftover),
    });
  }
  if (world.left.moves > 0) all.push(...moves(world));
  for (const process of world.processes) if (process.alive) all.push(...mishaps(world, process));
  return all;
}

function nameOf({ connection, requests: [{ verb, body }] }: Leftover): string {
  return `${body.owner}'s ${verb} on connection ${connection}, which has ended,`;
}

/** Timers on the way do not fire before the time has come there: a machine that slept. */
function moves(world: World): Choice[] {
  return world.moments().map((moment) => ({
    label: `${moment - world.time.now} ms pass`,
    take: () => {
      world.left.moves -= 1;
      world.moveTo(moment);
    },
  }));
}

function mishaps(world: World, process: Process): Choice[] {
  const { left } = world;
  const { instanceId: name, waiting } = process;
  const found: Choice[] = [];
  const kinds = left.losses > 0 ? world.scenario.losses : [];
  for (const { label, happen } of kinds.map((kind) => MISHAPS[kind]).filter(({ possible }) => possible(process))) {
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
      found.push({ label: `${name} dies${noticed ? '' : ', and the server does not notice'}`, take });
    }
  }
  if (left.leaves > 0 && waiting !== undefined) {
    const take = (): void => {
      left.leaves -= 1;
      waiting.leave?.();
    };
    found.push({ label: `${name} has a waiting caller leave`, take: step(process, take) });
  }
  return found;
}

interface Mishap {
  readonly label: string;
  /** Whether there is anything to lose. */
  readonly possible: (process: Process) => boolean;
  readonly happen: (process: Process, world: World) => void;
}

const MISHAPS: Readonly<Record<LossKind, Mishap>> = {
  message: {
    label: 'misses a hand-off',
    possible: ({ line }) => line.messages.length > 0,
    happen: ({ line }) => void line.messages.shift(),
  },
  duplicate: {
    label: 'hears of a hand-off, not for the last time',
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
    label: 'is deaf to hand-offs',
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
