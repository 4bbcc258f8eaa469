import { createKeyFactory, helperKey } from '../../../../lib/core/keys/resource-key.js';
import { PREFIX, RESOURCE } from './orders.js';

/** Returns the key of the queue, which holds the sharers and the waiters. */
export function queueOf(resource: string = RESOURCE): string {
  return helperKey(keyOf(resource), 'queue');
}

/** Returns the key of the workload's lock. */
export function keyOf(resource: string = RESOURCE): string {
  return createKeyFactory({ prefix: PREFIX, hashTag: 'family' })(resource);
}
