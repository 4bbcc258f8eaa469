import type { Channel } from 'node:diagnostics_channel';
import { lockChannels } from '../../lib/events/diagnostics.js';
import { workChannel } from '../../lib/events/tracing.js';

/** Returns the sockets, servers and child processes that are open. Node does not document it. */
const activeHandles = Reflect.get(process, '_getActiveHandles') as () => readonly object[];

type Task = (...args: unknown[]) => void;

const SIGNALS = ['SIGTERM', 'SIGINT', 'uncaughtException', 'unhandledRejection', 'beforeExit', 'exit'];

/** All suites of a worker share these channels, because `node:diagnostics_channel` is a module of Node. */
const CHANNELS: readonly Channel[] = [...Object.values(lockChannels), workChannel];

/**
 * How many turns of 2 ms a leftover has to end by itself: a socket that closes, or a timer that finds nothing to do,
 * such as that of a quorum store. They are counted, because time also passes when a machine stops.
 */
const TURNS = 1_000;

// Tests may fake them later.
const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;

interface StartedTimer {
  readonly kind: 'a timer' | 'an interval';
  readonly delayMs: number | undefined;
  /** Has the stack. Node formats it when it is read first, which takes longer than all else here. */
  readonly started: Error;
}

/** The timers that wait. */
const timers = new Map<unknown, StartedTimer>();

/** Records the timers that the library and tests start from now on in this environment of jest. */
export function recordTimers(): void {
  const startTimer = (task: Task, delayMs?: number, ...args: unknown[]): NodeJS.Timeout => {
    const run = (): void => {
      timers.delete(timer);
      task(...args);
    };
    const timer = setTimeout(run, delayMs);
    timers.set(timer, { kind: 'a timer', delayMs, started: new Error() });
    return timer;
  };
  const startInterval = (task: Task, delayMs?: number, ...args: unknown[]): NodeJS.Timeout => {
    const timer = setInterval(task, delayMs, ...args);
    timers.set(timer, { kind: 'an interval', delayMs, started: new Error() });
    return timer;
  };
  const stopBy =
    (stop: (timer: NodeJS.Timeout) => void) =>
    (timer: NodeJS.Timeout): void => {
      timers.delete(timer);
      stop(timer);
    };
  // The promise of `util.promisify(setTimeout)` is one of them.
  Object.defineProperties(startTimer, Object.getOwnPropertyDescriptors(setTimeout));
  const stops = { clearTimeout: stopBy(clearTimeout), clearInterval: stopBy(clearInterval) };
  Object.assign(globalThis, { setTimeout: startTimer, setInterval: startInterval, ...stops });
}

/** Returns the place in the library or in a test that starts a timer. Undefined if a package starts it. */
function placeOf({ stack = '' }: Error): string | undefined {
  const frames = stack.split('\n').slice(2);
  // Request timeouts share a timer. It waits on for a moment after the last of them was cancelled.
  if (frames.some((frame) => frame.includes('TimeoutPool.arm'))) return undefined;
  const first = frames.find((frame) => !/lib\/clock\/(?:clock|timeout-pool)\.ts/.test(frame)) ?? '';
  if (first.includes('/node_modules/')) return undefined;
  return /\/((?:lib|test|labs)\/[^)]+)/.exec(first)?.[1];
}

/** Returns what waits, is open or listens now, with descriptions. */
function present(): ReadonlyMap<unknown, string> {
  const found = new Map<unknown, string>();
  for (const [timer, { kind, delayMs, started }] of timers) {
    const place = placeOf(started) ?? (kind === 'an interval' ? 'a package' : undefined);
    if (place !== undefined) found.set(timer, `${kind} of ${delayMs} ms, from ${place}`);
  }
  for (const handle of activeHandles()) found.set(handle, nameOf(handle));
  for (const channel of CHANNELS) {
    if (channel.hasSubscribers) found.set(channel, `a subscriber of ${String(channel.name)}`);
  }
  for (const signal of SIGNALS) {
    for (const listener of process.rawListeners(signal)) found.set(listener, `a listener of ${signal}`);
  }
  return found;
}

function nameOf(handle: object): string {
  const { remotePort, spawnargs } = handle as { remotePort?: number; spawnargs?: readonly string[] };
  const detail = spawnargs?.join(' ') ?? (remotePort === undefined ? '' : `to port ${remotePort}`);
  return `${handle.constructor.name} ${detail}`.trim();
}

/**
 * Finds what a file of tests has started and not ended: timers, so also engines that hold a lock, sockets, servers,
 * processes, listeners and subscribers.
 */
export class Leftovers {
  private readonly before = new Set(present().keys());

  /** Returns descriptions of what is left when it has had time to end. */
  async found(): Promise<readonly string[]> {
    let left = this.left();
    for (let turn = 0; turn < TURNS && left.length > 0; turn += 1) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      left = this.left();
    }
    return [...new Set(left)];
  }

  private left(): readonly string[] {
    return [...present()].flatMap(([what, description]) => (this.before.has(what) ? [] : [description]));
  }
}
