import { runOutside } from '../common/async-context.js';
import { SystemClock, withTimeout } from '../clock/clock.js';
import { type ClusterClient, type ClusterListener, mastersOf } from '../redis/client-port.js';
import { addressesBySlot } from '../redis/redirection.js';
import { hostAndPort, type NatMap } from '../redis/redirection.js';
import { toError } from '../redis/redis-errors.js';
import { type NodeRedisClient, OwnConnection, PLAIN, rethrow } from './node-redis-client.js';

/** A node of a cluster of node-redis. */
export interface NodeRedisShard {
  readonly host: string;
  readonly port: number;
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
  sendCommand(key: string, isReadonly: boolean, words: string[], options?: object): Promise<unknown>;
  /** Returns the client of a node. Typed by a method, because the types of nodes differ between versions. */
  nodeClient(node: never): NodeRedisClient | Promise<NodeRedisClient>;
  on(event: string, listener: (error: Error) => void): unknown;
}

/** The options of a cluster that are read here. */
interface Options {
  readonly keyPrefix?: string | undefined;
  readonly nodeAddressMap?: NatMap | undefined;
  readonly rootNodes?: readonly { readonly url?: string; readonly socket?: Partial<NodeRedisShard> }[] | undefined;
}

/** How long a node may take to reply with the slots before the next one is asked, in milliseconds. */
const SLOTS_TIMEOUT_MS = 1_000;

const clock = new SystemClock();

/**
 * A cluster of node-redis that belongs to the caller. Only its list of nodes and the options of their clients are used.
 * The slots are read here: node-redis does not report when it has read them, and waits for a node that hangs without
 * end. Each master gets a connection of its own, which ends with the cluster, or when nobody watches it.
 */
export class SharedCluster implements ClusterClient {
  readonly isCluster = true;
  readonly keyPrefix: string;
  readonly givenNodes: readonly string[];
  slots: ClusterClient['slots'] = [];
  readonly natMap: NatMap | undefined;
  private readonly listeners = new Set<ClusterListener>();
  private readonly connections = new Map<string, OwnConnection>();
  /** A client with the options of all nodes. */
  private template: NodeRedisClient | undefined;

  constructor(private readonly cluster: NodeRedisCluster) {
    // Both versions have the options as an undocumented property.
    const { keyPrefix = '', nodeAddressMap, rootNodes = [] } = (Reflect.get(cluster, '_options') ?? {}) as Options;
    this.keyPrefix = keyPrefix;
    this.natMap = nodeAddressMap;
    this.givenNodes = rootNodes.map(({ url, socket }) => {
      const { hostname, port } = new URL(url ?? 'redis://localhost');
      return addressOf({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || 6379, ...socket });
    });
    cluster.on('error', (error: Error) => this.report(error));
    cluster.on('connect', () => this.listeners.size > 0 && this.connect());
    cluster.on('disconnect', () => this.close());
  }

  get status(): string {
    if (this.slots.length > 0) return 'ready';
    return this.cluster.isOpen ? 'connect' : 'wait';
  }

  readonly nodeAt = (address: string): OwnConnection | undefined => this.connections.get(address);

  /** Runs a script of no store, such as that of a fence, through the routing of node-redis. */
  readonly run: ClusterClient['run'] = (command, script, keys, args) => {
    const names = keys.map((key) => this.keyPrefix + key);
    const words = [command, script, String(keys.length), ...names, ...args];
    return this.cluster.sendCommand(names[0], false, words, PLAIN).catch(rethrow);
  };

  connectTo(address: string): OwnConnection | undefined {
    return this.template && new OwnConnection(this.template, this.keyPrefix, hostAndPort(address), 'nestjs-redis-lock');
  }

  /** Reads the slots in the background. The caller connects the cluster. */
  connect(): void {
    // Its event `connect` comes here again.
    if (this.cluster.isOpen)
      runOutside(() => void this.refresh().catch((error: unknown) => this.report(toError(error))));
  }

  watch(listener: ClusterListener): () => void {
    this.listeners.add(listener);
    if (this.listeners.size === 1) this.connect();
    return () => {
      if (this.listeners.delete(listener) && this.listeners.size === 0) this.close();
    };
  }

  async refresh(): Promise<void> {
    const { cluster, connections } = this;
    this.template ??= await Promise.any(cluster.masters.map(async (node) => cluster.nodeClient(node as never)));
    let lastError = new Error('the cluster of node-redis knows no master');
    for (const address of this.addressesToAsk()) {
      if (!cluster.isOpen || this.listeners.size === 0) throw new Error('the cluster of node-redis is not in use');
      const connection = this.connectionTo(address);
      // The next read begins at another node, because one that is cut off from the others knows old slots only.
      connections.delete(address);
      connections.set(address, connection);
      try {
        const slots = await withTimeout(clock, SLOTS_TIMEOUT_MS, connection.send('cluster', [], ['SLOTS']), () => {
          throw new Error(`no reply to CLUSTER SLOTS within ${SLOTS_TIMEOUT_MS} ms`);
        });
        return this.use(addressesBySlot(slots, address, this.natMap));
      } catch (error) {
        lastError = toError(error);
      }
    }
    throw lastError;
  }

  private report(error: Error): void {
    for (const listener of this.listeners) listener.error?.(error);
  }

  /** Returns all known nodes, those with a connection first. */
  private addressesToAsk(): Iterable<string> {
    const { connections, slots, cluster, givenNodes } = this;
    const ready = [...connections.keys()].filter((address) => connections.get(address)?.status === 'ready');
    const members = slots.flatMap((addresses) => addresses ?? []);
    return new Set([...ready, ...members, ...cluster.masters.map(addressOf), ...givenNodes]);
  }

  private use(slots: ClusterClient['slots']): void {
    // All have left during the read.
    if (this.listeners.size === 0) return this.close();
    this.slots = slots;
    this.endAllBut(new Set(slots.flatMap((addresses) => addresses ?? [])));
    for (const master of mastersOf(this)) this.connectionTo(master);
    for (const listener of this.listeners) listener.refresh?.();
  }

  private connectionTo(address: string): OwnConnection {
    const known = this.connections.get(address);
    if (known !== undefined) return known;
    const connection = this.connectTo(address) as OwnConnection;
    this.connections.set(address, connection);
    connection.connect();
    return connection;
  }

  private endAllBut(members: ReadonlySet<string>): void {
    for (const [address, connection] of this.connections) {
      if (members.has(address)) continue;
      this.connections.delete(address);
      connection.disconnect();
    }
  }

  private close(): void {
    this.slots = [];
    this.endAllBut(new Set());
  }
}

/** Returns the address of a node as slot tables have it. An IPv6 address has no brackets. */
function addressOf({ host, port }: NodeRedisShard): string {
  return `${host}:${port}`;
}
