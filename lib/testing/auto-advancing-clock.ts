import { runOutside } from '../common/async-context.js';
import { atEndOfTick, type Timer } from '../clock/clock.js';
import { ManualClock } from './manual-clock.js';

/** How many turns of the event loop the program has for its own work before the clock advances. */
const TURNS_PER_STEP = 10;

/** A manual clock that advances by itself, from timer to timer, for as long as a call waits for nothing but time. */
export class AutoAdvancingClock extends ManualClock {
  private isAdvancing = false;

  /** @param isAwaited returns whether a call waits for time, with a limit. */
  constructor(private readonly isAwaited: () => boolean) {
    super();
  }

  // A call that waits for time has a timer.
  override schedule(delayMs: number, task: () => void): Timer {
    this.look();
    return super.schedule(delayMs, task);
  }

  /** Begins to advance if a call waits for time. Called whenever that may be so. */
  look(): void {
    if (this.isAdvancing) return;
    this.isAdvancing = true;
    // The timers that are due must not run in the async context of this caller.
    void runOutside(() => this.advanceWhileAwaited());
  }

  private async advanceWhileAwaited(): Promise<void> {
    try {
      for (;;) {
        // Callers that are about to wait are not in the queue yet, and what ends their wait comes first.
        for (let turns = 0; turns < TURNS_PER_STEP; turns += 1) await new Promise<void>((go) => atEndOfTick(go));
        const next = this.nextUntil(Infinity);
        if (next === undefined || !this.isAwaited()) return;
        await this.advance(next.at - this.now());
      }
    } finally {
      this.isAdvancing = false;
    }
  }
}
