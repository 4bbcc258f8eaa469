import type { Clock, Timer } from '../../../lib/core/time/clock.js';
import { randomFrom } from '../random.js';
import type { VirtualClock } from '../simulation/virtual-clock.js';

/** A timer of Node is never early, and this much late at most, in milliseconds. */
const LATE_MS = 1.5;

interface Alarm extends Timer {
  task: (() => void) | undefined;
}

/** How a clock runs beside the timeline, which no process can read. */
export interface ClockSettings {
  readonly rate: number;
  readonly offsetMs: number;
}

/**
 * The machine of one process: its clock, and its event loop. A paused process runs nothing. When it continues, it runs
 * the timers that are due before it reads what has arrived, as Node does. A crashed process never runs again.
 */
export class Machine implements Clock {
  alive = true;
  readonly random: () => number;
  private readonly lateness: () => number;
  private readonly timers = new Set<Alarm>();
  /** Whether it was ever paused. */
  wasPaused = false;
  private paused = false;
  private readonly crashListeners: (() => void)[] = [];
  private dueTimers: (() => void)[] = [];
  private arrived: (() => void)[] = [];
  private wallShiftMs = 0;
  private jumps = 0;

  constructor(
    readonly timeline: VirtualClock,
    private readonly settings: ClockSettings,
    seed: number,
  ) {
    this.random = randomFrom(seed);
    this.lateness = randomFrom(seed + 1);
  }

  now(): number {
    return this.settings.offsetMs + this.timeline.now() * this.settings.rate;
  }

  wallTime(): number {
    return this.timeline.wallTime() + this.wallShiftMs;
  }

  forwardJumps(): number {
    return this.jumps;
  }

  /** Returns the moment of the timeline at which this clock shows `local`. */
  momentOf(local: number): number {
    return (local - this.settings.offsetMs) / this.settings.rate;
  }

  /** How many timers have neither fired nor been cancelled. */
  get timerCount(): number {
    return this.timers.size;
  }

  schedule(delayMs: number, task: () => void): Timer {
    const cancel = (): void => {
      alarm.task = undefined;
      this.timers.delete(alarm);
    };
    const alarm: Alarm = { task, cancel };
    this.timers.add(alarm);
    const run = (): void => {
      const due = alarm.task;
      cancel();
      due?.();
    };
    const delay = Math.max(1, delayMs) / this.settings.rate + this.lateness() * LATE_MS;
    this.timeline.schedule(delay, () => {
      if (this.paused) this.dueTimers.push(run);
      else this.run(run);
    });
    return alarm;
  }

  /** Runs a task that something outside of the process has caused: a packet, or a caller. */
  post(task: () => void): void {
    if (this.paused) this.arrived.push(task);
    else this.run(task);
  }

  /** Sets the wall clock. */
  setWallClock(byMs: number): void {
    this.wallShiftMs += byMs;
    if (byMs > 0) this.jumps += 1;
  }

  pause(): void {
    this.paused = this.wasPaused = true;
  }

  resume(): void {
    this.paused = false;
    const tasks = [...this.dueTimers, ...this.arrived];
    this.dueTimers = [];
    this.arrived = [];
    for (const task of tasks) this.timeline.schedule(0, () => this.post(task));
  }

  crash(): void {
    this.alive = false;
    this.timers.clear();
    for (const listener of this.crashListeners) listener();
  }

  onCrash(listener: () => void): void {
    this.crashListeners.push(listener);
  }

  private run(task: () => void): void {
    if (this.alive) task();
  }
}
