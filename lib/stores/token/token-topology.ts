import { helperKey } from '../../core/keys/resource-key.js';
import type { ReplyListener } from '../../core/store/pending-reply.js';
import { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { type ClusterClient, isCluster, type ServerClient } from '../../redis/client-port.js';
import { isCrossSlot } from '../../redis/redis-errors.js';
import type { NodeRequest, RedisNode, Topology } from '../../redis/topology.js';
import { SingleNode } from '../../redis/single-node.js';
import type { StoreContext } from '../store-context.js';
import { channelPrefix } from './handoff/handoff-channels.js';
import { newSecret } from './queue-entry.js';
import { FenceKeys } from '../../redis/fence-keys.js';
import { keysOf, type LockKeys, type ScriptNames } from './token-scripts.js';

/** The topology of the token store. */
export interface TokenTopology extends Topology, ScriptNames {
  /**
   * Returns the last arguments of a script that hands off the key's lock: the prefix of the waiters' channels, and in a
   * cluster that they are sharded.
   */
  handoffArgs(key: string): readonly string[];
  /** Returns the node that has the key. Undefined while there is no connection to it. */
  nodeOf(key: string): RedisNode | undefined;
  /** Returns a string that is the same for all keys whose locks one script can acquire, with one fence. */
  scriptGroupOf(key: string): string;
}

/** Returns the topology of the cluster or of the single server that the client leads to. */
export function tokenTopology(context: StoreContext): TokenTopology {
  const client = context.redis();
  return isCluster(client) ? new TokenCluster(client, context) : new TokenSingleNode(client, context);
}

class TokenSingleNode extends SingleNode implements TokenTopology {
  readonly secret = newSecret();
  private readonly fences: FenceKeys;
  private readonly handoff: readonly string[];
  /** True if the server refuses keys of several slots: a proxy, or a node of a cluster. */
  private slotted = false;

  constructor(client: ServerClient, context: StoreContext) {
    super(client, context.clock, context.requestTimeoutMs);
    this.fences = new FenceKeys(context.prefix);
    this.handoff = [channelPrefix(context.prefix)];
  }

  keysOf(key: string): LockKeys {
    if (!this.slotted) return keysOf(key, this.fences.shared);
    return keysInSlot(key, this.prefix, this.fences);
  }

  handoffArgs(): readonly string[] {
    return this.handoff;
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
  readonly secret = newSecret();
  private readonly fences: FenceKeys;

  constructor(
    cluster: ClusterClient,
    private readonly context: StoreContext,
  ) {
    super(cluster, context.clock, context.requestTimeoutMs);
    this.fences = new FenceKeys(context.prefix);
  }

  keysOf(key: string): LockKeys {
    return keysInSlot(key, this.prefix, this.fences);
  }

  // Locks of one hash tag also have their channels in common.
  scriptGroupOf(key: string): string {
    return this.tagOf(key);
  }

  handoffArgs(key: string): readonly string[] {
    return [`${channelPrefix(this.context.prefix)}{${this.tagOf(key)}}:`, '1'];
  }
}

/** Returns the keys of a lock in one slot, before the client puts its prefix before each name. */
function keysInSlot(key: string, prefix: string, fences: FenceKeys): LockKeys {
  // A key without braces is its own hash tag, including the client's prefix.
  const tagged = prefix === '' || key.includes('{') ? key : `{${prefix}${key}}`;
  return [key, fences.of(prefix + key), helperKey(tagged, 'queue')];
}
