import type { Clock, Timer } from '../../../lib/core/time/clock.js';

/** The time of the whole model, of the server and of every process. */
export interface Time {
  now: number;
}

interface Alarm extends Timer {
  readonly at: number;
  readonly task: () => void;
}

/**
 * One process's timers. A timer that is due fires in a step of its own. So other steps may come first, as in a process
 * that was suspended.
 */
export class ModelClock implements Clock {
  /** In the order in which they fire. */
  alarms: Alarm[] = [];

  constructor(private readonly time: Time) {}

  now(): number {
    return this.time.now;
  }

  wallTime(): number {
    return 0;
  }

  schedule(delayMs: number, task: () => void): Timer {
    const at = this.time.now + delayMs;
    const alarm: Alarm = { at, task, cancel: () => void (this.alarms = this.alarms.filter((one) => one !== alarm)) };
    const behind = this.alarms.findIndex((other) => other.at > at);
    this.alarms.splice(behind === -1 ? this.alarms.length : behind, 0, alarm);
    return alarm;
  }

  /**
   * Returns the same number to all. Timers that are due at one moment may fire in any order, which covers every jitter.
   */
  random(): number {
    return 0.5;
  }

  get due(): boolean {
    const [first] = this.alarms;
    return first !== undefined && first.at <= this.time.now;
  }

  /** Fires the first timer that is due. */
  fire(): void {
    this.alarms.shift()?.task();
  }
}
