import { createKeyFactory, helperKey } from '../../../../lib/keys/resource-key.js';
import { PREFIX, RESOURCE } from './orders.js';

/** The key of the workload's lock, of its waiters, and of the owners that share it. */
export const KEY = createKeyFactory({ prefix: PREFIX, hashTag: 'family' })(RESOURCE);
export const QUEUE = helperKey(KEY, 'queue');
export const HOLDERS = helperKey(KEY, 'holders');
