import { uptime } from 'node:os';
import { performance } from 'node:perf_hooks';
// The global function may be a test's fake, which never calls.
import { setImmediate } from 'node:timers';

/** Calls a function when the promise jobs that are queued by now have run. A test cannot fake it later. */
export const afterPromiseJobs = queueMicrotask;

/**
 * Calls a function when the current code has run. If a promise job asks for it, the other promise jobs of the tick come
 * first. A test cannot fake it later.
 */
export const atNextTick: (task: () => void) => void = process.nextTick.bind(process);

/** A timer that was started by {@link Clock.schedule}. */
export interface Timer {
  /** Stops the timer. Does nothing once it has fired. */
  cancel(): void;
}

/**
 * The only source of time, timers and random numbers of this library. A test can pass a `ManualClock`.
 *
 * @publicApi
 */
export interface Clock {
  /**
   * Returns milliseconds since an unspecified start. They never run backwards and include the time for which the
   * machine was suspended. Leases are measured with them.
   */
  now(): number;
  /** Returns milliseconds since 1970 by the machine's wall clock. The clock can be set, so it measures no lease. */
  wallTime(): number;
  /**
   * Calls `task` once, in `delayMs` milliseconds. Any finite delay works, even beyond 2³¹−1.
   *
   * @param background true for a timer that does not keep the process alive. Default: false.
   */
  schedule(delayMs: number, task: () => void, background?: boolean): Timer;
  /** Returns a random number that is at least 0 and less than 1. */
  random(): number;
  /**
   * Returns how many times the wall clock has jumped forward, as far as was noticed when `now()` was called. The clock
   * of a virtual machine that was stopped is set forward later. So after a jump, the engine checks every lock that it
   * holds. Default: no jump is noticed.
   */
  forwardJumps?(): number;
}

/** The longest delay of Node's timers. A longer delay would fire immediately. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** If the wall clock moves this much against the monotonic clock, it was set or the machine was suspended. */
const SUSPICIOUS_MS = 50;

/**
 * The machine's clocks. `now()` includes the time for which the machine was suspended, which `performance.now()` omits,
 * because a machine that resumes must not trust a lease that has expired in Redis.
 */
export class SystemClock implements Clock {
  private readonly bootOffset = uptime() * 1000 - performance.now();
  private wallOffset = Date.now() - performance.now();
  private suspendedMs = 0;
  private jumps = 0;

  now(): number {
    const monotonic = performance.now();
    const wallOffset = Date.now() - monotonic;
    // The wall clock is cheap to read. The uptime (8 µs a call) is read only if the wall clock moved, and distinguishes
    // a suspension from a clock that was set.
    const stepMs = wallOffset - this.wallOffset;
    if (Math.abs(stepMs) > SUSPICIOUS_MS) {
      this.wallOffset = wallOffset;
      if (stepMs > 0) this.jumps += 1;
      const asleep = uptime() * 1000 - monotonic - this.bootOffset;
      if (asleep - this.suspendedMs > SUSPICIOUS_MS) this.suspendedMs = asleep;
    }
    return monotonic + this.suspendedMs;
  }

  wallTime(): number {
    return Date.now();
  }

  forwardJumps(): number {
    return this.jumps;
  }

  schedule(delayMs: number, task: () => void, background = false): Timer {
    return new SystemTimer(delayMs, task, background);
  }

  random(): number {
    return Math.random();
  }
}

/** A timer that chains several of Node's timers for a delay beyond 2³¹−1 ms. */
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

/** A timer that fires later than this, in milliseconds, was late because the event loop was blocked. */
const STALL_MS = 50;

/**
 * Calls `giveUp` after `delayMs`, when the replies that have arrived by then were read. If the event loop was blocked,
 * it is called later.
 */
export function scheduleTimeout(clock: Clock, delayMs: number, giveUp: () => void): Timer {
  const limitMs = Math.max(0, delayMs);
  const dueAt = clock.now() + limitMs;
  const onTime = (): void => {
    // The event loop runs timers before it reads sockets.
    timer = clock.schedule(clock.now() - dueAt > STALL_MS ? limitMs / 2 : 0, giveUp, true);
  };
  let timer = clock.schedule(limitMs, onTime, true);
  return { cancel: () => timer.cancel() };
}

/**
 * Returns the result of `reply` if it settles within `delayMs`, otherwise what `late` returns or throws. If the event
 * loop was blocked when the time elapsed, the reply has half of `delayMs` more. The request may not have been sent.
 */
export function withTimeout<T>(clock: Clock, delayMs: number, reply: Promise<T>, late: () => T): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const giveUp = (): void => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    };
    const timer = scheduleTimeout(clock, delayMs, giveUp);
    reply.then(resolve, reject).finally(() => timer.cancel());
  });
}

/** Resolves once the event loop has read what had arrived at its sockets, for example after it was blocked. */
export function repliesRead(clock: Clock): Promise<void> {
  // The first timer may fire before the sockets are read. The second one cannot.
  return new Promise((resolve) => clock.schedule(0, () => clock.schedule(0, resolve)));
}

/** Calls `task` when all callbacks of this tick of the event loop have run. */
export function atEndOfTick(task: () => void): void {
  setImmediate(task);
}

/**
 * Returns by how much a local deadline is earlier than the end of the lease: 1 % + 2 ms, as in the description of
 * Redlock. It covers the drift between two machines' clocks.
 */
export function driftOf(leaseMs: number): number {
  return leaseMs * 0.01 + 2;
}
