import { createKeyFactory, helperKey } from '../../../../lib/keys/resource-key.js';
import { PREFIX, RESOURCE } from './orders.js';

/** Returns the key of the waiters. */
export function queueOf(resource: string = RESOURCE): string {
  return helperKey(keyOf(resource), 'queue');
}

/** Returns the key of the owners that share the lock. */
export function holdersOf(resource: string = RESOURCE): string {
  return helperKey(keyOf(resource), 'holders');
}

/** Returns the key of the workload's lock. */
export function keyOf(resource: string = RESOURCE): string {
  return createKeyFactory({ prefix: PREFIX, hashTag: 'family' })(resource);
}
