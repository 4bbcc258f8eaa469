/**
 * The port: all that stores, the fence and the preflight need of a client of Redis. It has two implementations with
 * what each client has of its own: `lib/redis/ioredis` and `lib/node-redis`. Commands are lower-case names.
 *
 * Rules for an implementation:
 *
 * - Requests leave in the order in which they are made, and those of one tick in one packet at the latest.
 * - The client puts its `keyPrefix` before each key, and before nothing else.
 * - A request without a connection waits for it, or is rejected. One whose connection ends is sent again over the next
 *   one, or is rejected. Stores assume neither: a late or repeated request does no harm.
 * - The error of a server has the name `ReplyError` and begins with the server's code.
 */

import type { NatMap, SlotTable } from './redirection.js';

/** Runs scripts: all that a fence needs. */
export interface ScriptClient {
  /** Runs a script, by its text or by its digest. */
  run(command: 'eval' | 'evalsha', script: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
}

/** Receives what happens to the connection of a client. */
export interface ClientListener {
  /** An attempt to connect has begun. */
  readonly connecting?: () => void;
  /** The server has accepted a connection. */
  readonly connect?: () => void;
  /** The connection takes requests. */
  readonly ready?: () => void;
  /** The connection or the attempt to connect has ended. */
  readonly close?: () => void;
  /** The client makes no further attempt. */
  readonly end?: () => void;
  readonly error?: (error: Error) => void;
  /** A message has arrived. Only further connections are subscribed. */
  readonly message?: (channel: string, message: string) => void;
  /** The server has removed sharded channels, because their slot has moved. */
  readonly moved?: () => void;
}

/** A client of one server. */
export interface ServerClient extends ScriptClient {
  /** `wait`, `connecting`, `connect`, `ready`, `close`, `reconnecting`, `disconnecting` or `end`, as in ioredis. */
  readonly status: string;
  /** What the client puts before each key. */
  readonly keyPrefix: string;
  /** Where it connects to. */
  readonly target: ServerTarget;
  /** The socket, while there is one. Undefined for a client that hides it and writes a tick's requests together. */
  readonly socket?: ClientSocket | undefined;
  /** Sends a command. */
  send(command: string, keys?: readonly string[], args?: readonly string[]): Promise<unknown>;
  /** Connects in the background. Does nothing if the owner of the client does that. */
  connect(): void;
  /**
   * Ends the connection at once, without the bytes that wait in its buffers if that is possible. The client connects
   * again. Undefined for a client that the caller has given: its other users may wait for replies.
   */
  readonly reset?: (() => void) | undefined;
  /** Begins to report. Returns a function that stops it. */
  watch(listener: ClientListener): () => void;
  /**
   * Makes a further connection to the same server, not yet connected. The caller closes it. That for `replicas` sends
   * no command again. Returns undefined if the client cannot be duplicated.
   */
  open(purpose: 'handoffs' | 'replicas'): FurtherConnection | undefined;
}

/** Where a client connects to, as its options say. */
export interface ServerTarget {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly path?: string | null | undefined;
  readonly sentinels?: readonly ServerTarget[] | null | undefined;
  /** The name of the master at its Sentinels. */
  readonly name?: string | null | undefined;
  /** The number of the database. Default: 0. */
  readonly db?: number | undefined;
  /** What makes the connection use TLS. */
  readonly tls?: unknown;
}

/** The part of a socket that is used. */
export interface ClientSocket {
  readonly bytesRead?: number;
  readonly remoteAddress?: string;
  readonly remotePort?: number;
  cork(): void;
  uncork(): void;
}

/** A connection that belongs to a store. */
export interface FurtherConnection extends ServerClient {
  subscribe(channel: string, isSharded: boolean): Promise<unknown>;
  unsubscribe(channel: string, isSharded: boolean): Promise<unknown>;
  /** Cuts the connection. It comes back if `reconnect` is true. */
  disconnect(reconnect?: boolean): void;
}

/** Receives what happens to a cluster. */
export interface ClusterListener {
  /** The slot table was read. */
  readonly refresh?: () => void;
  readonly error?: (error: Error) => void;
}

/** A client of a Redis Cluster: its slot table and the clients of its nodes. Its routing serves fences only. */
export interface ClusterClient extends ScriptClient {
  readonly isCluster: true;
  readonly status: string;
  readonly keyPrefix: string;
  /** The nodes that were given, without passwords. */
  readonly givenNodes: readonly string[];
  readonly slots: SlotTable;
  /** Maps the address that a node announces to the one at which it is reached. */
  readonly natMap?: NatMap | undefined;
  /** Returns the client of a node: a new one after the connection has ended. Undefined while there is none. */
  nodeAt(address: string): ServerClient | undefined;
  /** Makes a connection to a node outside of the slot table. The caller closes it. Undefined if no node is known. */
  connectTo(address: string): FurtherConnection | undefined;
  /** Connects in the background. Does nothing if the owner of the client does that. */
  connect(): void;
  /** Reads the slot table. */
  refresh(): Promise<void>;
  /** Begins to report. Returns a function that stops it. */
  watch(listener: ClusterListener): () => void;
}

/** Returns true if the client is of a cluster. */
export function isCluster(client: object): client is ClusterClient {
  return 'isCluster' in client && client.isCluster === true;
}

/** Returns the addresses of the masters of slots. */
export function mastersOf({ slots }: ClusterClient): ReadonlySet<string> {
  const masters = slots.map((addresses) => addresses?.[0]);
  return new Set(masters.filter((address) => address !== undefined));
}
