import { hashTag } from '../../keys/resource-key.js';
import { FenceKeys } from '../../redis/slots.js';
import { isCrossSlot } from '../../redis/redis-errors.js';
import { keysOf, type LockKeys, lockOf } from './wire.js';

/** Names the keys and the channels of locks, as they are sent. */
export class LockNames {
  private readonly fences: FenceKeys;
  /** What all channels begin with: the module's `prefix`, so that an ACL can keep tenants apart. */
  private readonly channelStart: string;
  /**
   * Whether a script names keys of one slot only. Not known at first of a single server, which may be a proxy or a node
   * of a cluster.
   */
  isSlotted: boolean;

  /**
   * @param clientPrefix what the client puts before each key.
   * @param prefix the module's `prefix`.
   * @param isCluster whether channels are sharded.
   */
  constructor(
    private readonly clientPrefix: string,
    prefix: string,
    readonly isCluster: boolean,
  ) {
    this.fences = new FenceKeys(prefix);
    this.channelStart = `${prefix}nestjs-redis-lock:`;
    this.isSlotted = isCluster;
  }

  /** Returns the keys of a lock. */
  keysOf(key: string): LockKeys {
    if (!this.isSlotted) return keysOf(key, this.fences.shared);
    return keysOf(key, this.fences.of(this.clientPrefix + key), this.clientPrefix);
  }

  /** Returns the key of the lock that a key in Redis belongs to. Undefined if it belongs to none. */
  lockOf(name: string): string | undefined {
    return lockOf(name, this.isSlotted ? this.clientPrefix : '');
  }

  /** Returns what the channels of all instances begin with: in a cluster, those of one hash tag. */
  channelsOf(key: string): string {
    return this.isCluster ? `${this.channelStart}{${this.tagOf(key)}}:` : this.channelStart;
  }

  /** Returns a string that is the same for all keys whose locks one script can name, with one fence. */
  scriptGroupOf(key: string): string {
    // Locks of one hash tag also have their channels in common.
    if (this.isCluster) return this.tagOf(key);
    return this.isSlotted ? this.fences.of(this.clientPrefix + key) : '';
  }

  /**
   * Returns whether an error shows that the server refuses keys of several slots. What was named before that was known
   * is then sent again, with keys of one slot.
   */
  learnsSlots(error: unknown): boolean {
    if (!isCrossSlot(error)) return false;
    this.isSlotted = true;
    return true;
  }

  private tagOf(key: string): string {
    return hashTag(this.clientPrefix + key);
  }
}
