import type { Clock, Timer } from '../../../lib/core/time/clock.js';
import { randomFrom } from '../random.js';

interface Alarm extends Timer {
  readonly at: number;
  readonly nth: number;
  task: (() => void) | undefined;
}

/**
 * The time of a simulation. It jumps from one timer to the next, for many thousand timers, and repeats a run from its
 * seed. `ManualClock` looks through all timers to find the next one.
 */
export class VirtualClock implements Clock {
  readonly random: () => number;
  private time = 0;
  private scheduled = 0;
  /** A binary heap, the next one first. */
  private readonly alarms: Alarm[] = [];

  constructor(seed: number) {
    this.random = randomFrom(seed);
  }

  now(): number {
    return this.time;
  }

  wallTime(): number {
    return Date.UTC(2026, 0, 1) + this.time;
  }

  schedule(delayMs: number, task: () => void): Timer {
    this.scheduled += 1;
    const cancel = (): void => void (alarm.task = undefined);
    const alarm: Alarm = { at: this.time + Math.max(0, delayMs), nth: this.scheduled, task, cancel };
    this.push(alarm);
    return alarm;
  }

  /** Resolves after a delay. */
  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.schedule(delayMs, resolve));
  }

  /** Runs timers until `isOver` returns true. Rejects if no timer is left. */
  async runUntil(isOver: () => boolean): Promise<void> {
    await settled();
    while (!isOver()) {
      const alarm = this.pop();
      if (alarm === undefined) throw new Error('the simulation stands still: no timer is left');
      if (alarm.task === undefined) continue;
      this.time = alarm.at;
      alarm.task();
      await settled();
    }
  }

  private push(alarm: Alarm): void {
    const { alarms } = this;
    let at = alarms.push(alarm) - 1;
    for (let parent = (at - 1) >> 1; at > 0 && isBefore(alarm, alarms[parent]); parent = (at - 1) >> 1) {
      alarms[at] = alarms[parent];
      at = parent;
    }
    alarms[at] = alarm;
  }

  private pop(): Alarm | undefined {
    const { alarms } = this;
    const [first] = alarms;
    const last = alarms.pop();
    if (last === undefined || last === first) return first;
    let at = 0;
    for (;;) {
      let child = at * 2 + 1;
      if (child >= alarms.length) break;
      if (child + 1 < alarms.length && isBefore(alarms[child + 1], alarms[child])) child += 1;
      if (isBefore(last, alarms[child])) break;
      alarms[at] = alarms[child];
      at = child;
    }
    alarms[at] = last;
    return first;
  }
}

function isBefore(one: Alarm, other: Alarm): boolean {
  return one.at < other.at || (one.at === other.at && one.nth < other.nth);
}

/** Resolves once everything has run that only waits for promises. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
