import { createKeyFactory } from '../../../lib/core/resource-key.js';
import { PREFIX, RESOURCE } from './orders.js';

/** The key that the workload's lock is kept under. */
export function keyOf(resource: string = RESOURCE): string {
  return createKeyFactory({ prefix: PREFIX, hashTag: 'family' })(resource);
}
