import { AsyncResource } from 'node:async_hooks';
import type { Clock, Timer } from '../core/time/clock.js';

interface Alarm {
  readonly at: number;
  readonly task: () => void;
}

/**
 * A clock that stands still until it is moved: leases, waiting and renewal in tests without real time.
 *
 * @publicApi
 */
export class ManualClock implements Clock {
  private time = 0;
  private wall: number;
  private readonly alarms = new Set<Alarm>();

  /** @param wallTime milliseconds since 1970 at the start. */
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
    // As a real timer's, its task runs in the asynchronous context that set it.
    const alarm: Alarm = { at: this.time + delayMs, task: AsyncResource.bind(task) };
    this.alarms.add(alarm);
    return { cancel: () => void this.alarms.delete(alarm) };
  }

  /** Always the middle, so that every delay is known beforehand. */
  random(): number {
    return 0.5;
  }

  /** How many timers are set. */
  get pending(): number {
    return this.alarms.size;
  }

  /** Sets the wall clock, as an operator would; no lease may depend on it. */
  setWallTime(wallTime: number): void {
    this.wall = wallTime;
  }

  /**
   * Moves the time on. Timers on the way fire in order, each at its own time, and what they set in motion runs before the
   * next one.
   */
  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    await settled();
    for (let alarm = this.nextUntil(end); alarm !== undefined; alarm = this.nextUntil(end)) {
      this.alarms.delete(alarm);
      this.moveTo(Math.max(this.time, alarm.at));
      alarm.task();
      await settled();
    }
    this.moveTo(end);
  }

  /**
   * Moves the time on without firing anything on the way, like a process that was stopped: what is due fires at the next
   * {@link advance}.
   */
  jump(ms: number): void {
    this.moveTo(this.time + ms);
  }

  private moveTo(time: number): void {
    this.wall += time - this.time;
    this.time = time;
  }

  private nextUntil(end: number): Alarm | undefined {
    let next: Alarm | undefined;
    for (const alarm of this.alarms) if (alarm.at <= end && (next === undefined || alarm.at < next.at)) next = alarm;
    return next;
  }
}

/** Lets everything run that only waits for promises. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
