import { runOutside } from '../core/async-context.js';
import { atEndOfTick } from '../core/time/clock.js';
import type { ManualClock } from './manual-clock.js';

/** How many turns of the event loop the program has for its own work before the clock advances. */
const TURNS_PER_STEP = 10;
const STEP_MS = 50;

/** Advances a manual clock for as long as somebody waits for nothing else than time. */
export class PassingTime {
  private isPassing = false;

  /** @param isAwaited returns whether somebody waits for time, and for a finite one. */
  constructor(
    private readonly clock: ManualClock,
    private readonly isAwaited: () => boolean,
  ) {}

  /** Begins to look whether time is waited for. Called when that may be. */
  look(): void {
    if (this.isPassing) return;
    this.isPassing = true;
    // The timers that are due are not in the context of the caller that has come here.
    void runOutside(() => this.pass());
  }

  private async pass(): Promise<void> {
    try {
      for (;;) {
        // Callers that are to wait are not in line yet, and what ends their wait comes first.
        for (let turns = 0; turns < TURNS_PER_STEP; turns += 1) await new Promise<void>((go) => atEndOfTick(go));
        if (!this.isAwaited()) return;
        await this.clock.advance(STEP_MS);
      }
    } finally {
      this.isPassing = false;
    }
  }
}
