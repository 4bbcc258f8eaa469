import { dropOldest } from '../drop-oldest.js';
import type { WaitEstimate } from '../errors.js';
import type { Clock } from '../time/clock.js';

/** The weights of a new sample in the average and in the deviation, as in RFC 6298, which estimates round trips. */
const AVERAGE_GAIN = 1 / 8;
const DEVIATION_GAIN = 1 / 4;

/** The most samples that are counted. Later ones only replace older ones. */
const MOST_SAMPLES = 100;

/** An average that nothing was added to for this long is forgotten. */
const RECENT_MS = 60_000;

/** For how many keys an instance remembers the waits. */
const REMEMBERED_KEYS = 1_000;

interface Average {
  msPerPlace: number;
  deviationMs: number;
  samples: number;
  learnedAt: number;
}

/**
 * How long the callers of one module instance have waited lately for each place of a key's line: a moving average. It
 * contains what other instances held the lock for in between. Only a contended key has one, and at most 1,000 keys.
 */
export class RecentWaits {
  /** In the order of the last samples. */
  private readonly byKey = new Map<string, Average>();

  constructor(private readonly clock: Pick<Clock, 'now'>) {}

  /** How many keys are remembered. @internal For tests. */
  get size(): number {
    return this.byKey.size;
  }

  /** Adds how long it took until the next caller of a line was served. */
  learn(key: string, ms: number): void {
    const now = this.clock.now();
    const known = this.recent(key, now);
    this.byKey.delete(key);
    if (known === undefined) {
      this.byKey.set(key, { msPerPlace: ms, deviationMs: ms / 2, samples: 1, learnedAt: now });
      dropOldest(this.byKey, REMEMBERED_KEYS);
      return;
    }
    known.deviationMs += (Math.abs(ms - known.msPerPlace) - known.deviationMs) * DEVIATION_GAIN;
    known.msPerPlace += (ms - known.msPerPlace) * AVERAGE_GAIN;
    known.samples = Math.min(MOST_SAMPLES, known.samples + 1);
    known.learnedAt = now;
    this.byKey.set(key, known);
  }

  /** Returns how long a caller would wait for that many places. Undefined if nothing recent is known. */
  estimate(key: string, places: number): WaitEstimate | undefined {
    const known = this.recent(key, this.clock.now());
    if (known === undefined) return undefined;
    const { msPerPlace, deviationMs, samples } = known;
    return { waitMs: places * msPerPlace, deviation: msPerPlace > 0 ? deviationMs / msPerPlace : 0, samples };
  }

  private recent(key: string, now: number): Average | undefined {
    const known = this.byKey.get(key);
    return known !== undefined && now - known.learnedAt < RECENT_MS ? known : undefined;
  }
}
