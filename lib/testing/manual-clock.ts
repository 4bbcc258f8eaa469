import { contextOfCaller } from '../common/async-context.js';
import { atEndOfTick, type Clock, type Timer } from '../clock/clock.js';

/** A timer that is scheduled. */
export interface Alarm {
  readonly at: number;
  readonly task: () => void;
}

/**
 * A clock that a test advances by hand: leases, waiting and renewals without real time.
 *
 * @publicApi
 */
export class ManualClock implements Clock {
  private time = 0;
  private wall: number;
  private readonly alarms = new Set<Alarm>();
  private jumps = 0;

  /** @param wallTime the wall clock at the start, in milliseconds since 1970. Default: 2026-01-01. */
  constructor(wallTime: number = Date.UTC(2026, 0, 1)) {
    this.wall = wallTime;
  }

  now(): number {
    return this.time;
  }

  wallTime(): number {
    return this.wall;
  }

  schedule(delayMs: number, task: () => void): Timer {
    // Like a real timer's task, this task runs in the asynchronous context that scheduled it.
    const context = contextOfCaller('ManualClock');
    const alarm: Alarm = { at: this.time + delayMs, task: () => context.runInAsyncScope(task) };
    this.alarms.add(alarm);
    return { cancel: () => void this.alarms.delete(alarm) };
  }

  /** Returns 0.5, so that every delay is predictable. */
  random(): number {
    return 0.5;
  }

  /** How many timers are scheduled. */
  get pending(): number {
    return this.alarms.size;
  }

  /**
   * Sets the wall clock, as an operator would. No lease depends on it. If it is set forward, the held locks are checked
   * at the next tick, as after a snapshot of the machine, during which all its clocks are stopped.
   */
  setWallTime(wallTime: number): void {
    if (wallTime > this.wall) this.jumps += 1;
    this.wall = wallTime;
  }

  forwardJumps(): number {
    return this.jumps;
  }

  /**
   * Advances the time by `ms` milliseconds. Runs the timers that are due in order, each at its own time. Resolves once
   * everything that they started has run.
   */
  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    await this.settled();
    for (let alarm = this.nextUntil(end); alarm !== undefined; alarm = this.nextUntil(end)) {
      this.alarms.delete(alarm);
      this.moveTo(Math.max(this.time, alarm.at));
      alarm.task();
      await this.settled();
    }
    // Another call may have advanced the time further during these tasks.
    this.moveTo(Math.max(this.time, end));
  }

  /**
   * Advances the time by `ms` milliseconds without running timers, as if the process was suspended. The next
   * {@link advance} runs what is due.
   */
  jump(ms: number): void {
    this.moveTo(this.time + ms);
  }

  /** Sets the time, and the wall clock with it. @internal */
  protected moveTo(time: number): void {
    this.wall += time - this.time;
    this.time = time;
  }

  /** Returns the first timer that is due by then. @internal */
  protected nextUntil(end: number): Alarm | undefined {
    let next: Alarm | undefined;
    for (const alarm of this.alarms) if (alarm.at <= end && (next === undefined || alarm.at < next.at)) next = alarm;
    return next;
  }

  /** Resolves once everything that waits only for promises has run. @internal */
  protected settled(): Promise<void> {
    return new Promise((resolve) => atEndOfTick(resolve));
  }
}
