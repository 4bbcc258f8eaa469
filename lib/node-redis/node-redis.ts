import type { NatMap } from '../redis/client-port.js';

/**
 * The part of a client of `redis` (5.9 to 6) that locks use. It is typed by its methods: the classes of the two
 * versions are not assignable to each other, and the package `redis` is not needed to load this module.
 *
 * @publicApi
 */
export interface NodeRedisClient {
  /** True from `connect()` until the client is closed or gives up. */
  readonly isOpen: boolean;
  /** True while the connection accepts commands. */
  readonly isReady: boolean;
  /** The options that the client was made with. */
  readonly options?: object | undefined;
  connect(): Promise<unknown>;
  /** Sends a command as it is: the client's `keyPrefix` is not added. */
  sendCommand(args: readonly string[], options?: object): Promise<unknown>;
  /** Makes a client with the same options but for these. */
  duplicate(overrides?: object): NodeRedisClient;
  subscribe(channel: string, listener: MessageListener): Promise<unknown>;
  unsubscribe(channel: string, listener: MessageListener): Promise<unknown>;
  sSubscribe(channel: string, listener: MessageListener): Promise<unknown>;
  sUnsubscribe(channel: string, listener: MessageListener): Promise<unknown>;
  /** Cuts the connection permanently. */
  destroy(): void;
  on(event: string, listener: (error: Error) => void): unknown;
}

/** Receives the messages of a channel. */
export type MessageListener = (message: string, channel: string) => void;

/** The options of a client that the adapter reads. */
export interface NodeRedisOptions {
  readonly socket?: {
    readonly host?: string | undefined;
    readonly port?: number | undefined;
    readonly path?: string | undefined;
    readonly tls?: boolean | undefined;
  };
  readonly database?: number | undefined;
  /** Since version 6. */
  readonly keyPrefix?: string | undefined;
}

/** Returns the options that a client was made with. */
export function optionsOf(client: NodeRedisClient): NodeRedisOptions {
  return client.options ?? {};
}

/**
 * Options of each command. Without them the client's own `commandOptions` would apply: a `typeMapping` gives buffers
 * for texts, and a `timeout` (5 s in version 6) gives up commands that wait for the connection.
 */
export const PLAIN = { typeMapping: {}, timeout: undefined, abortSignal: undefined, asap: false };

/** A reply of a server that is an error begins with its code. No error of a connection begins like this. */
const ERROR_REPLY = /^[A-Z][A-Z\d]{2,}(?: |$)/;

/** Sends a command. Rejects with a `ReplyError`, as ioredis has it, if the server replies with an error. */
export function send(client: NodeRedisClient, args: readonly string[]): Promise<unknown> {
  return client.sendCommand(args, PLAIN).catch(rethrow);
}

/** Throws the error. One of a server gets the name by which stores distinguish it from one of the connection. */
export function rethrow(error: unknown): never {
  if (error instanceof Error && ERROR_REPLY.test(error.message)) {
    Object.defineProperty(error, 'name', { value: 'ReplyError', configurable: true, writable: true });
  }
  throw error;
}

/** A node of a cluster of node-redis. */
export interface NodeRedisShard {
  readonly host: string;
  readonly port: number;
}

/** A node in the options of a cluster of node-redis. */
export interface NodeRedisRoot {
  readonly url?: string | undefined;
  readonly socket?: { readonly host?: string | undefined; readonly port?: number | undefined } | undefined;
}

/**
 * The part of a cluster of `redis` (5.9 to 6) that locks use: its nodes and the options of their clients.
 *
 * @publicApi
 */
export interface NodeRedisCluster {
  /** True from `connect()` until the cluster is closed. */
  readonly isOpen: boolean;
  readonly masters: readonly NodeRedisShard[];
  /** Sends a command to the node that has the key, and follows redirections. */
  sendCommand(
    firstKey: string | undefined,
    isReadonly: boolean | undefined,
    args: string[],
    options?: object,
  ): Promise<unknown>;
  /** Returns the client of a node. Typed by a method, because the types of nodes differ between versions. */
  nodeClient(node: never): NodeRedisClient | Promise<NodeRedisClient>;
  on(event: string, listener: (error: Error) => void): unknown;
}

/** The options of a cluster that the adapter reads. */
interface NodeRedisClusterOptions {
  readonly keyPrefix?: string | undefined;
  readonly nodeAddressMap?: NatMap | undefined;
  readonly rootNodes?: readonly NodeRedisRoot[] | undefined;
}

/** Returns the options that a cluster was made with. Both versions have them as an undocumented property. */
export function optionsOfCluster(cluster: NodeRedisCluster): NodeRedisClusterOptions {
  const options: unknown = Reflect.get(cluster, '_options');
  return typeof options === 'object' && options !== null ? options : {};
}
