const SLOTS = 16_384;

/** The part of a key that decides its slot: what is in its first braces, unless nothing is; else all of it. */
export function hashTagOf(key: string): string {
  const open = key.indexOf('{');
  const close = key.indexOf('}', open + 1);
  return open === -1 || close <= open + 1 ? key : key.slice(open + 1, close);
}

/** The slot of a cluster that keeps what has this hash tag: CRC16 (XMODEM), as in Redis' cluster specification. */
export function slotOfTag(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  }
  return crc & (SLOTS - 1);
}
