const SLOTS = 16_384;

/** The slot of a cluster that keeps what has this hash tag: CRC16 (XMODEM), as in Redis' cluster specification. */
export function slotOfTag(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  }
  return crc & (SLOTS - 1);
}
