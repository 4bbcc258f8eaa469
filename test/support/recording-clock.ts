import { ManualClock } from 'nestjs-redis-lock/testing';
import type { Timer } from '../../lib/clock/clock.js';

/** A manual clock that records its timers and counts how often it is read. */
export class RecordingClock extends ManualClock {
  readonly scheduled: { readonly delayMs: number; readonly background: boolean }[] = [];
  reads = 0;

  override now(): number {
    this.reads += 1;
    return super.now();
  }

  override schedule(delayMs: number, task: () => void, background = false): Timer {
    this.scheduled.push({ delayMs, background });
    return super.schedule(delayMs, task);
  }
}
