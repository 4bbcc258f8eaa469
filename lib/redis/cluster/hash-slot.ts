/** The number of slots of a cluster. */
export const SLOTS = 16_384;

/** The slot of a cluster that keeps what has this hash tag: CRC16 (XMODEM), as in Redis' cluster specification. */
export function slotOfTag(tag: string): number {
  return slotOfChecksum(checksum(tag));
}

/** Returns the slot of a hash tag with this checksum. */
export function slotOfChecksum(crc: number): number {
  return crc & (SLOTS - 1);
}

/** Returns the CRC16 of a text, or of `before + text` from the CRC16 of `before`. */
export function checksum(text: string, before = 0): number {
  let crc = before;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  }
  return crc & 0xffff;
}
