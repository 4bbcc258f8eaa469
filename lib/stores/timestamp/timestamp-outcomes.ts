import { channel } from 'node:diagnostics_channel';

/**
 * The outcome of one attempt to take a lock.
 *
 * - `acquired`: the key did not exist.
 * - `deletedMeanwhile`: the key existed and was gone when it was read. The attempt starts over.
 * - `stillHeld`: the key's expiry is not over.
 * - `takenOver`: the key's expiry was over, and this client has replaced it.
 * - `lostRace`: the key's expiry was over, and another client was faster. The attempt starts over.
 *
 * With scripts, `deletedMeanwhile` and `lostRace` do not occur, because a script is atomic.
 *
 * @publicApi
 */
export type TimestampOutcome = 'acquired' | 'deletedMeanwhile' | 'stillHeld' | 'takenOver' | 'lostRace';

/**
 * The message that is published on {@link timestampOutcomes}.
 *
 * @publicApi
 */
export interface TimestampOutcomeEvent {
  /** The Redis key of the lock. */
  readonly key: string;
  readonly outcome: TimestampOutcome;
}

/**
 * The `node:diagnostics_channel` with the name `nestjs-redis-lock:outcome`. It carries a {@link TimestampOutcomeEvent}
 * for each attempt. Without a subscriber an outcome costs one property read.
 *
 * @publicApi
 */
export const timestampOutcomes = channel('nestjs-redis-lock:outcome');

/** Publishes an outcome if the channel has subscribers. */
export function publishOutcome(key: string, outcome: TimestampOutcome): void {
  if (timestampOutcomes.hasSubscribers) timestampOutcomes.publish({ key, outcome } satisfies TimestampOutcomeEvent);
}
