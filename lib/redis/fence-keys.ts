import { hashTag } from '../keys/resource-key.js';
import { checksum, slotOfChecksum, slotOfTag } from './cluster/hash-slot.js';

/**
 * The keys that keep the last fencing token. There is one for all locks of a server, or one for each slot of a cluster,
 * because a script may use keys of one slot only. They begin with the module's `prefix`, as the lock keys do.
 */
export class FenceKeys {
  /** For all locks of a server. */
  readonly shared: string;
  private readonly bySlot = new Map<number, string>();
  private readonly tagStart: string;
  private readonly startChecksum: number;
  private tried = 0;

  constructor(prefix: string) {
    this.shared = `{${prefix}}|fence`;
    this.tagStart = `${prefix}:`;
    this.startChecksum = checksum(this.tagStart);
    // A server that refuses keys of several slots allows this key for one slot. Without a prefix it has no hash tag.
    if (prefix !== '') this.bySlot.set(slotOfTag(hashTag(this.shared)), this.shared);
  }

  /** Returns the fence of the slot that a key is in. */
  of(key: string): string {
    return this.ofSlot(slotOfTag(hashTag(key)));
  }

  /** Tries hash tags until one has that slot: 16,384 on average, which takes 3 ms. */
  private ofSlot(slot: number): string {
    for (;;) {
      const known = this.bySlot.get(slot);
      if (known !== undefined) return known;
      const tagEnd = (this.tried++).toString(36);
      const found = slotOfChecksum(checksum(tagEnd, this.startChecksum));
      if (!this.bySlot.has(found)) this.bySlot.set(found, `{${this.tagStart}${tagEnd}}|fence`);
    }
  }
}
