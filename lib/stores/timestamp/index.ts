export { timestamp } from './timestamp.store.js';
export type { TimestampOptions, TimestampUnit } from './timestamp-options.js';
