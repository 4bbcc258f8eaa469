export { timestamp, type TimestampOptions } from './timestamp.js';
export type { TimestampUnit } from './expiry-clock.js';
