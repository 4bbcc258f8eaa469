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
  return slotOfChecksum(checksum(tag));
}

/** Returns the slot of a hash tag with this checksum. */
export function slotOfChecksum(crc: number): number {
  return crc & (SLOTS - 1);
}

/** Returns the CRC16 of a string, or of `before + text` from the CRC16 of `before`. */
export function checksum(text: string, before = 0): number {
  let crc = before;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) return checksumOfBytes(Buffer.from(text.slice(i)), crc);
    crc = withByte(crc, code);
  }
  return crc;
}

function checksumOfBytes(bytes: Buffer, before: number): number {
  let crc = before;
  for (const byte of bytes) crc = withByte(crc, byte);
  return crc;
}

function withByte(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ CRC_OF_BYTE[(crc >> 8) ^ byte];
}
