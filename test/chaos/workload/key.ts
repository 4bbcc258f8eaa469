import { createKeyFactory, helperKey } from '../../../lib/core/keys/resource-key.js';
import { PREFIX, RESOURCE } from './orders.js';

/** The key in which those stand who share the lock, and those who wait for it. */
export function queueOf(resource: string = RESOURCE): string {
  return helperKey(keyOf(resource), 'queue');
}

/** The key that the workload's lock is kept under. */
export function keyOf(resource: string = RESOURCE): string {
  return createKeyFactory({ prefix: PREFIX, hashTag: 'family' })(resource);
}
