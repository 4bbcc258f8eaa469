export { timestamp } from './timestamp.store.js';
export type { TimestampOptions, TimestampUnit } from './timestamp-options.js';
export { type TimestampOutcome, type TimestampOutcomeEvent, timestampOutcomes } from './timestamp-outcomes.js';
