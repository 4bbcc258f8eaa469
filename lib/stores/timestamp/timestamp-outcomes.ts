import { channel } from 'node:diagnostics_channel';

/**
 * What came of one try for a lock by timestamps.
 *
 * - `acquired`: there was none.
 * - `deletedMeanwhile`: it was there, and gone when it was looked at; the try begins anew.
 * - `stillHeld`: its expiry has not come.
 * - `takenOver`: its expiry was over; it is ours.
 * - `lostRace`: its expiry was over, and somebody else was faster; the try begins anew.
 *
 * A script does in one step what others could come between: it is never `deletedMeanwhile` and never `lostRace`.
 *
 * @publicApi
 */
export type TimestampOutcome = 'acquired' | 'deletedMeanwhile' | 'stillHeld' | 'takenOver' | 'lostRace';

/**
 * What is published on {@link timestampOutcomes}.
 *
 * @publicApi
 */
export interface TimestampOutcomeEvent {
  /** The Redis key of the lock. */
  readonly key: string;
  readonly outcome: TimestampOutcome;
}

/**
 * The `node:diagnostics_channel` of {@link TimestampOutcomeEvent}: `nestjs-redis-lock:outcome`. Without a subscriber an
 * outcome costs one property read.
 *
 * @publicApi
 */
export const timestampOutcomes = channel('nestjs-redis-lock:outcome');

/** Tells whoever has subscribed. */
export function tellOutcome(key: string, outcome: TimestampOutcome): void {
  if (timestampOutcomes.hasSubscribers) timestampOutcomes.publish({ key, outcome } satisfies TimestampOutcomeEvent);
}
