import type { ReplyListener } from '../contract/reply-listener.js';
import type { StorePing } from '../contract/store-ping.js';
import type { ScanRequest } from './key-scan.js';
import type { ChannelListener, ChannelSources } from './pubsub/channel-source.js';
import type { ConnectionListener, RedisConnection } from './redis-connection.js';

/** One Redis server and what is known of it. Each node has its own clock and its own script cache. */
export interface RedisNode {
  readonly connection: RedisConnection;
  /** True if a request is sent or rejected soon. False if it would wait in the client's queue through an outage. */
  readonly failsFast: boolean;
}

/** A request to the node that has a key. It listens to its own reply. */
export interface NodeRequest<T> extends ReplyListener<T> {
  /** Sends the request to a node. The listener then calls this object, or sends the request to another node. */
  send(node: RedisNode, listener: ReplyListener<T>): void;
}

/** Which node has which key: one server, or the nodes of a cluster. */
export interface Topology extends ChannelSources {
  /** The client's `keyPrefix`. */
  readonly prefix: string;
  /** Returns the node that has the key. Undefined while there is no connection to it. */
  nodeOf(key: string): RedisNode | undefined;
  /** Returns the address of the node that has the key. Undefined on a single server, or if the node is not known. */
  serverOf?(key: string): string | undefined;
  /** Returns the connections to all servers. */
  connections(): Iterable<RedisConnection>;
  /** Calls `send` with the node that has the key. In a cluster it may be called again with another node. */
  sendToNode<T>(key: string, send: (node: RedisNode) => Promise<T>): Promise<T>;
  /** Like `sendToNode`. Calls the request with the reply or an error. Every lock goes through here: no promise. */
  request<T>(key: string, request: NodeRequest<T>): void;
  /**
   * Yields all keys that match a glob, on all masters, page by page. Pattern and keys are without the client's
   * `keyPrefix`. A key may be yielded twice. Throws `LockUnavailableError` if it cannot be sure of having found all.
   */
  scan(request: ScanRequest): AsyncIterable<readonly string[]>;
  /**
   * Pings all masters. Takes at most `requestTimeoutMs`. Does not reject. Names a missing master.
   *
   * @param polling why messages cannot be received, and what is limited. Undefined if they can.
   */
  ping(polling: string | undefined): Promise<StorePing>;
  /** Begins to report the state of the connections and their channels. Returns a function that stops it. */
  watch(listener: ConnectionListener, channels: ChannelListener): () => void;
}
