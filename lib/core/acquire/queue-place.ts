import { dropOldest } from '../drop-oldest.js';
import type { Clock } from '../time/clock.js';

/** How many of a queue repeat their requests as often as if they were alone in it. */
const FIRST_FEW = 8;

/** The pause of the next one behind them. It grows with the square of the place. */
const SHORTEST_PAUSE_MS = 1_000;
/** Shorter than the scripts keep a queue without requests (60 s). */
const LONGEST_PAUSE_MS = 40_000;

/** How much later than the one before it a waiter requests a lock whose holder's lease has ended. */
const EXPIRY_STEP_MS = 50;

/** The share of the first caller's remaining time that a pause may take, and how long it may always take. */
const SHARE_OF_REST = 0.75;
const SHORT_REST_MS = 2_000;

/** For how many keys an instance remembers the speed of the queue. */
const REMEMBERED_KEYS = 1_000;

/** How fast the queues of one module instance's keys have moved when it waited last, in milliseconds per place. */
export class QueueSpeeds {
  private readonly msPerPlace = new Map<string, number>();

  of(key: string): number {
    return this.msPerPlace.get(key) ?? Infinity;
  }

  learn(key: string, msPerPlace: number): void {
    this.msPerPlace.delete(key);
    this.msPerPlace.set(key, msPerPlace);
    dropOldest(this.msPerPlace, REMEMBERED_KEYS);
  }
}

/** Returns true if a waiter is so far behind in its queue that it repeats its request less often. */
export function isFarBehind(ahead: number | undefined): ahead is number {
  return ahead !== undefined && ahead >= FIRST_FEW;
}

/**
 * The place of an attempt in a long queue, and how long the attempt pauses there between two requests. A repeated
 * request only finds what was lost. These are the bounds for finding it:
 *
 * - **A dead or frozen holder.** The first eight find it as soon as its lease has ended. If they are dead, too, each
 *   further waiter looks 50 ms after the one before it, and at the latest after its pause.
 * - **A lost handoff.** The lock is lost to its owner after the handoff's lease of 1.2 s, and the first eight pass it
 *   on. They themselves repeat their requests within 1 s, so that they find their own handoffs in time. An owner that
 *   got a lock from further behind finds out at the end of its pause, and joins the queue again. The queue has then
 *   moved by all `ahead` places during the pause. The pause is at most 1.5 times as long as that takes if the queue
 *   moves as fast as before.
 * - **A lost queue.** An end of the connection makes all waiters repeat their requests. After FLUSHALL, the first eight
 *   are back within 1 s. All others are back within their pause, in the order of their pauses.
 * - **A caller's time.** A pause takes at most three quarters of what the first caller still waits, or 2 s.
 *
 * With `n` waiters that is about `n / 35 + 20` requests a second, instead of `n / 0.75`.
 */
export class QueuePlace {
  private readonly joinedAt: number;
  private repliedAt = 0;
  /** At the last reply. */
  private ahead: number | undefined = undefined;

  /** @param msPerPlace how fast the queue has moved when this instance waited last. */
  constructor(
    private readonly clock: Clock,
    private readonly joinedBehind: number,
    private msPerPlace: number,
  ) {
    this.joinedAt = clock.now();
  }

  /** How fast the queue has moved since the attempt joined it, if the attempt is granted now. */
  get speed(): number {
    return (this.clock.now() - this.joinedAt) / (this.joinedBehind + 1);
  }

  /** Returns the pause before the next request, after a reply with this place. */
  pauseAfter(ahead: number, expiresInMs: number, restMs: number): number {
    const { clock } = this;
    const isFirst = this.ahead === undefined;
    this.observe(ahead, clock.now());
    const byPlaceMs = Math.min(LONGEST_PAUSE_MS, SHORTEST_PAUSE_MS * (ahead / FIRST_FEW) ** 2);
    const longestMs = Math.min(byPlaceMs, Math.max(restMs * SHARE_OF_REST, SHORT_REST_MS));
    // Instances that have joined together must not repeat their requests together.
    const share = (0.75 + clock.random() / 4) * (isFirst ? clock.random() : 1);
    const bySpeedMs = this.msPerPlace * (ahead + 1) * (1 + clock.random() / 2);
    return Math.min(longestMs * share, bySpeedMs, expiresInMs + ahead * EXPIRY_STEP_MS);
  }

  /** Measures how fast the queue moves. The speed of a queue that stands still is not known. */
  private observe(ahead: number, now: number): void {
    if (this.ahead !== undefined) {
      const moved = this.ahead - ahead;
      this.msPerPlace = moved > 0 ? (now - this.repliedAt) / moved : Infinity;
    }
    this.ahead = ahead;
    this.repliedAt = now;
  }
}
