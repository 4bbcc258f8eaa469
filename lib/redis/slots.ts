import { hashTag } from '../keys/resource-key.js';

/** The number of slots of a cluster. */
export const SLOTS = 16_384;

/** What a byte changes of a checksum. */
const CRC_OF_BYTE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});

/** The slot of a cluster that keeps what has this hash tag: CRC16 (XMODEM), as in Redis' cluster specification. */
export function slotOfTag(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) crc = ((crc << 8) & 0xffff) ^ CRC_OF_BYTE[(crc >> 8) ^ byte];
  return crc & (SLOTS - 1);
}

/**
 * The keys that keep the last fencing token. There is one for all locks of a server, or one for each slot of a cluster,
 * because a script may use keys of one slot only. They begin with the module's `prefix`, as the lock keys do.
 */
export class FenceKeys {
  /** For all locks of a server. */
  readonly shared: string;
  private readonly bySlot = new Map<number, string>();
  private tried = 0;

  constructor(private readonly prefix: string) {
    this.shared = `{${prefix}}|fence`;
    // A server that refuses keys of several slots allows this key for one slot. Without a prefix it has no hash tag.
    if (prefix !== '') this.bySlot.set(slotOfTag(hashTag(this.shared)), this.shared);
  }

  /**
   * Returns the fence of the slot that a key is in. Tries hash tags until one has that slot: 16,384 on average, once in
   * a process, which takes some milliseconds.
   */
  of(key: string): string {
    const slot = slotOfTag(hashTag(key));
    for (;;) {
      const known = this.bySlot.get(slot);
      if (known !== undefined) return known;
      const tag = `${this.prefix}:${(this.tried++).toString(36)}`;
      const found = slotOfTag(tag);
      if (!this.bySlot.has(found)) this.bySlot.set(found, `{${tag}}|fence`);
    }
  }
}
