import type { ReplyListener } from '../../contract/reply-listener.js';
import { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { type ClusterClient, isCluster, type ServerClient } from '../../redis/client-port.js';
import { FenceKeys } from '../../redis/fence-keys.js';
import { isCrossSlot } from '../../redis/redis-errors.js';
import { SingleNode } from '../../redis/single-node.js';
import type { NodeRequest, RedisNode, Topology } from '../../redis/topology.js';
import type { StoreContext } from '../store-context.js';
import { keysOf, type LockKeys, lockOf } from './wire.js';

/** The topology of the token store. */
export interface TokenTopology extends Topology {
  /** Whether channels are sharded, and a script names keys of one slot only. */
  readonly isCluster: boolean;
  /** Returns the keys of a lock as they are sent. */
  keysOf(key: string): LockKeys;
  /** Returns the key of the lock that a key in Redis belongs to. Undefined if it belongs to none. */
  lockOf(name: string): string | undefined;
  /** Returns what the channels of all instances begin with: in a cluster, those of one slot. */
  channelsOf(key: string): string;
  /** Returns the node that has the key. Undefined while there is no connection to it. */
  nodeOf(key: string): RedisNode | undefined;
  /** Returns a string that is the same for all keys whose locks one script can name, with one fence. */
  scriptGroupOf(key: string): string;
}

/** Returns the topology of the cluster or of the single server that the client leads to. */
export function tokenTopology(context: StoreContext): TokenTopology {
  const client = context.redis();
  return isCluster(client) ? new TokenCluster(client, context) : new TokenSingleNode(client, context);
}

/** Returns what the channels of a module begin with: its `prefix`, so that an ACL can keep tenants apart. */
function channelPrefix(prefix: string): string {
  return `${prefix}nestjs-redis-lock:`;
}

class TokenSingleNode extends SingleNode implements TokenTopology {
  readonly isCluster = false;
  private readonly fences: FenceKeys;
  private readonly channelStart: string;
  /** True if the server refuses keys of several slots: a proxy, or a node of a cluster. */
  private slotted = false;

  constructor(client: ServerClient, context: StoreContext) {
    super(client, context.clock, context.requestTimeoutMs);
    this.fences = new FenceKeys(context.prefix);
    this.channelStart = channelPrefix(context.prefix);
  }

  keysOf(key: string): LockKeys {
    if (!this.slotted) return keysOf(key, this.fences.shared);
    return keysOf(key, this.fences.of(this.prefix + key), this.prefix);
  }

  lockOf(name: string): string | undefined {
    return lockOf(name, this.slotted ? this.prefix : '');
  }

  channelsOf(): string {
    return this.channelStart;
  }

  nodeOf(): RedisNode {
    return this;
  }

  scriptGroupOf(key: string): string {
    return this.slotted ? this.fences.of(this.prefix + key) : '';
  }

  override sendToNode<T>(_key: string, send: (node: RedisNode) => Promise<T>): Promise<T> {
    const { slotted } = this;
    return send(this).catch((error: unknown) => {
      if (!slotted && this.learnsSlots(error)) return send(this);
      throw error;
    });
  }

  override request<T>(_key: string, request: NodeRequest<T>): void {
    request.send(this, this.slotted ? request : new UnslottedRequest(this, request));
  }

  /**
   * Returns whether an error shows that the server refuses keys of several slots. Every request that was sent before
   * that was known is then sent again, with keys of one slot. @internal
   */
  learnsSlots(error: unknown): boolean {
    if (!isCrossSlot(error)) return false;
    this.slotted = true;
    return true;
  }
}

/** A request that was sent while it was not known whether the server refuses keys of several slots. */
class UnslottedRequest<T> implements ReplyListener<T> {
  constructor(
    private readonly server: TokenSingleNode,
    private readonly request: NodeRequest<T>,
  ) {}

  onReply(reply: T): void {
    this.request.onReply(reply);
  }

  onFailed(error: unknown): void {
    const { server, request } = this;
    if (!server.learnsSlots(error)) return request.onFailed(error);
    try {
      request.send(server, request);
    } catch (thrown) {
      request.onFailed(thrown);
    }
  }
}

class TokenCluster extends ClusterTopology implements TokenTopology {
  readonly isCluster = true;
  private readonly fences: FenceKeys;

  constructor(
    cluster: ClusterClient,
    private readonly context: StoreContext,
  ) {
    super(cluster, context.clock, context.requestTimeoutMs);
    this.fences = new FenceKeys(context.prefix);
  }

  keysOf(key: string): LockKeys {
    return keysOf(key, this.fences.of(this.prefix + key), this.prefix);
  }

  lockOf(name: string): string | undefined {
    return lockOf(name, this.prefix);
  }

  // Locks of one hash tag also have their channels in common.
  scriptGroupOf(key: string): string {
    return this.tagOf(key);
  }

  channelsOf(key: string): string {
    return `${channelPrefix(this.context.prefix)}{${this.tagOf(key)}}:`;
  }
}
