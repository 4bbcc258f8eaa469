import { createHash } from 'node:crypto';

/**
 * Converts owners to Redisson's form `<uuid>:<threadId>` and back. The UUID stands for one module instance, the thread
 * id for one attempt, so no owner occurs twice.
 */
export class RedissonOwners {
  private readonly uuids = new Map<string, string>();
  private readonly instances = new Map<string, string>();

  /** Returns the field of an owner `<instanceId>:<attempt>`. */
  fieldOf(owner: string): string {
    const colon = owner.lastIndexOf(':');
    return this.uuidOf(owner.slice(0, colon)) + owner.slice(colon);
  }

  /** Returns the holder of a field: the instance's id if this process has it, the UUID otherwise. */
  holderOf(field: string): string {
    const colon = field.lastIndexOf(':');
    const uuid = colon < 0 ? field : field.slice(0, colon);
    return this.instances.get(uuid) ?? uuid;
  }

  private uuidOf(instanceId: string): string {
    const known = this.uuids.get(instanceId);
    if (known !== undefined) return known;
    const uuid = asUuid(createHash('sha256').update(instanceId).digest());
    this.uuids.set(instanceId, uuid);
    this.instances.set(uuid, instanceId);
    return uuid;
  }
}

/** Returns a UUID of version 4, as Java's random UUIDs. The instance's id is as random. */
function asUuid(bytes: Buffer): string {
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex', 0, 16);
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
