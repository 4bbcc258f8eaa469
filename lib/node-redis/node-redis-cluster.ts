import { runOutside } from '../core/context/async-context.js';
import { SystemClock, type Timer, withTimeout } from '../core/time/clock.js';
import { type ClusterClient, type ClusterListener, mastersOf } from '../redis/client-port.js';
import { SLOTS } from '../redis/cluster/hash-slot.js';
import { hostAndPort, type NatMap, reachedAt } from '../redis/redirection.js';
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
  sendCommand(
    key: string | undefined,
    isReadonly: boolean | undefined,
    args: string[],
    options?: object,
  ): Promise<unknown>;
  /** Returns the client of a node. Typed by a method, because the types of nodes differ between versions. */
  nodeClient(node: never): NodeRedisClient | Promise<NodeRedisClient>;
  on(event: string, listener: (error: Error) => void): unknown;
}

/** The options of a cluster that are read here. */
interface Options {
  readonly keyPrefix?: string | undefined;
  readonly nodeNatMap?: NatMap | undefined;
  readonly rootNodes?: readonly { readonly url?: string; readonly socket?: Partial<NodeRedisShard> }[] | undefined;
}

/** How long a node may take to reply with the slots before the next one is asked, in milliseconds. */
const SLOTS_TIMEOUT_MS = 1_000;

/** The pause before the slots are read again while no node has replied with them, in milliseconds. */
const RETRY_AFTER_MS = 200;

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
  private retryTimer: Timer | undefined;
  private reading: Promise<void> | undefined;

  constructor(private readonly cluster: NodeRedisCluster) {
    // Both versions have the options as an undocumented property.
    const { keyPrefix = '', nodeNatMap, rootNodes = [] } = (Reflect.get(cluster, '_options') ?? {}) as Options;
    this.keyPrefix = keyPrefix;
    this.natMap = nodeNatMap;
    this.givenNodes = rootNodes.map(({ url, socket }) => {
      const { hostname, port } = new URL(url ?? 'redis://localhost');
      return addressOf({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || 6379, ...socket });
    });
    cluster.on('error', (error: Error) => this.reportError(error));
    cluster.on('connect', () => this.listeners.size > 0 && this.connect());
    cluster.on('disconnect', () => this.close());
  }

  get status(): string {
    if (this.slots.length > 0) return 'ready';
    return this.cluster.isOpen ? 'connect' : 'wait';
  }

  nodeAt(address: string): OwnConnection | undefined {
    return this.connections.get(address);
  }

  /** Runs a script of no store, such as that of a fence, through the routing of node-redis. */
  readonly run: ClusterClient['run'] = (command, script, keys, args) => {
    const names = keys.map((key) => this.keyPrefix + key);
    const words = [command, script, String(keys.length), ...names, ...args];
    return this.cluster.sendCommand(names[0], false, words, PLAIN).catch(rethrow);
  };

  connectTo(address: string): OwnConnection | undefined {
    const { template, keyPrefix } = this;
    const own = { name: 'nestjs-redis-lock', keyPrefix, address: hostAndPort(address) };
    return template && new OwnConnection(template, own);
  }

  /** Reads the slots in the background until a node has replied. The caller connects the cluster. */
  connect(): void {
    this.retryTimer?.cancel();
    // Its event `connect` comes here again.
    if (!this.cluster.isOpen) return;
    const onFailed = (error: unknown): void => {
      this.reportError(toError(error));
      if (this.listeners.size > 0) this.retryTimer = clock.schedule(RETRY_AFTER_MS, () => this.connect(), true);
    };
    runOutside(() => void this.refresh().catch(onFailed));
  }

  /** Reads the slots once for all callers. */
  refresh(): Promise<void> {
    this.reading ??= this.read().finally(() => (this.reading = undefined));
    return this.reading;
  }

  watch(listener: ClusterListener): () => void {
    this.listeners.add(listener);
    if (this.listeners.size === 1) this.connect();
    return () => {
      if (this.listeners.delete(listener) && this.listeners.size === 0) this.close();
    };
  }

  private reportError(error: Error): void {
    for (const listener of this.listeners) listener.error?.(error);
  }

  private async read(): Promise<void> {
    const { cluster } = this;
    this.template ??= await Promise.any(cluster.masters.map(async (node) => cluster.nodeClient(node as never)));
    let lastError = new Error('the cluster of node-redis knows no master');
    for (const address of this.addressesToAsk()) {
      if (!cluster.isOpen) throw new Error('the cluster of node-redis is not connected');
      try {
        const reply = this.connectionTo(address).send('cluster', [], ['SLOTS']);
        const slots = await withTimeout(clock, SLOTS_TIMEOUT_MS, reply, () => {
          throw new Error(`no reply to CLUSTER SLOTS within ${SLOTS_TIMEOUT_MS} ms`);
        });
        return this.use(addressesBySlot(slots, address, this.natMap));
      } catch (error) {
        lastError = toError(error);
      }
    }
    throw lastError;
  }

  /** Returns the known nodes in random order, those with a connection first. One that is cut off knows old slots only. */
  private addressesToAsk(): readonly string[] {
    const nodes = [...this.cluster.masters.map(addressOf), ...this.givenNodes];
    const known = new Set([
      ...this.connections.keys(),
      ...this.slots.flatMap((addresses) => addresses ?? []),
      ...nodes,
    ]);
    const rankOf = (address: string): number =>
      clock.random() + (this.connections.get(address)?.status === 'ready' ? 0 : 1);
    const ranked = Array.from(known, (address) => ({ address, rank: rankOf(address) }));
    return ranked.toSorted((one, other) => one.rank - other.rank).map(({ address }) => address);
  }

  private use(slots: ClusterClient['slots']): void {
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
    this.retryTimer?.cancel();
    this.slots = [];
    this.endAllBut(new Set());
  }
}

/** Returns the address of a node as slot tables have it. An IPv6 address has no brackets. */
function addressOf({ host, port }: NodeRedisShard): string {
  return `${host}:${port}`;
}

/**
 * Returns the addresses of each slot's master and replicas, from the reply to CLUSTER SLOTS.
 *
 * @param sender the address of the node that replied. A node that does not know its own host names an empty one.
 * @internal Exported for tests.
 */
export function addressesBySlot(reply: unknown, sender: string, map: NatMap | undefined): ClusterClient['slots'] {
  const slots = Array.from<readonly string[] | undefined>({ length: SLOTS });
  for (const [first, last, ...nodes] of reply as [number, number, ...[string | null, number][]][]) {
    const addresses = nodes.map(([host, port]) =>
      reachedAt(`${host === '?' ? '' : (host ?? '')}:${port}`, sender, map),
    );
    if (addresses.length > 0) slots.fill(addresses, first, last + 1);
  }
  if (slots.every((addresses) => addresses === undefined)) throw new Error('the node knows no slots');
  return slots;
}
