import { uptime } from 'node:os';
import { performance } from 'node:perf_hooks';

/** A timer that was started by {@link Clock.schedule}. */
export interface Timer {
  /** Stops the timer; does nothing once it has fired. */
  cancel(): void;
}

/**
 * All time and chance of this library. Only this file touches the ambient ones, so that a test can hand in a clock that
 * it moves by hand.
 *
 * @publicApi
 */
export interface Clock {
  /**
   * Milliseconds that never run backwards and that count the time a machine was suspended. Leases are measured by it.
   * Where it starts is unspecified.
   */
  now(): number;
  /** Milliseconds since 1970 by this machine's wall clock, which anybody may set: never measure a lease by it. */
  wallTime(): number;
  /**
   * Calls `task` once, in `delayMs` milliseconds; any finite delay works, also beyond 2³¹−1.
   * A `background` timer does not keep the process alive.
   */
  schedule(delayMs: number, task: () => void, background?: boolean): Timer;
  /** At least 0, less than 1. */
  random(): number;
}

/** The longest delay that Node's timers take; a longer one would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** A wall clock that moved this much against the monotonic one was set, or the machine slept. */
const SUSPICIOUS_MS = 50;

/**
 * The machine's clocks.
 *
 * `performance.now()` stands still while a machine is suspended, and Redis' clock does not: a laptop or a virtual machine
 * that wakes up would believe in a lease long over. So the wall clock, which is cheap to read, is compared on each call,
 * and only when it moved against the monotonic one does the time since boot (8 µs a call) tell a suspension from somebody
 * who set the wall clock.
 */
export class SystemClock implements Clock {
  private readonly bootOffset = uptime() * 1000 - performance.now();
  private wallOffset = Date.now() - performance.now();
  private suspendedMs = 0;

  now(): number {
    const monotonic = performance.now();
    const wallOffset = Date.now() - monotonic;
    if (Math.abs(wallOffset - this.wallOffset) > SUSPICIOUS_MS) {
      this.wallOffset = wallOffset;
      const asleep = uptime() * 1000 - monotonic - this.bootOffset;
      if (asleep - this.suspendedMs > SUSPICIOUS_MS) this.suspendedMs = asleep;
    }
    return monotonic + this.suspendedMs;
  }

  wallTime(): number {
    return Date.now();
  }

  schedule(delayMs: number, task: () => void, background = false): Timer {
    return new SystemTimer(delayMs, task, background);
  }

  random(): number {
    return Math.random();
  }
}

/** Delays that are longer than Node's timers take are made of several. */
class SystemTimer implements Timer {
  private handle: NodeJS.Timeout;

  constructor(
    delayMs: number,
    private readonly task: () => void,
    private readonly background: boolean,
  ) {
    this.handle = this.arm(delayMs);
  }

  cancel(): void {
    clearTimeout(this.handle);
  }

  private arm(delayMs: number): NodeJS.Timeout {
    const restMs = delayMs - MAX_DELAY_MS;
    const handle =
      restMs > 0 ? setTimeout(() => (this.handle = this.arm(restMs)), MAX_DELAY_MS) : setTimeout(this.task, delayMs);
    return this.background ? handle.unref() : handle;
  }
}

/** Waits for an answer for at most `delayMs`; what `late` answers or throws stands in for one that came later. */
export function withTimeout<T>(clock: Clock, delayMs: number, answer: Promise<T>, late: () => T): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const giveUp = (): void => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    };
    const timer = clock.schedule(Math.max(0, delayMs), giveUp, true);
    answer.then(resolve, reject).finally(() => timer.cancel());
  });
}

/**
 * What a local deadline keeps back from a lease, because two machines' clocks do not tick alike: 1 % and 2 ms, as in
 * Redlock's description.
 */
export function driftOf(leaseMs: number): number {
  return leaseMs * 0.01 + 2;
}
