import { runOutside } from '../core/context/async-context.js';
import { SystemClock, type Timer, withTimeout } from '../core/time/clock.js';
import type { ClusterClient, ClusterListener, NatMap } from '../redis/client-port.js';
import { toError } from '../redis/redis-errors.js';
import {
  type NodeRedisClient,
  type NodeRedisCluster,
  type NodeRedisRoot,
  optionsOfCluster,
  PLAIN,
  rethrow,
} from './node-redis.js';
import { OwnConnection } from './own-connection.js';
import { addressesBySlot } from './slot-table.js';

/** How long a node may take to reply with the slots before the next one is asked, in milliseconds. */
const SLOTS_TIMEOUT_MS = 1_000;

/** The pause before the slots are read again while no node has replied with them, in milliseconds. */
const RETRY_AFTER_MS = 200;

const clock = new SystemClock();

/**
 * A cluster of node-redis that belongs to the caller. Only its list of nodes and the options of their clients are used.
 * The slots are read here, and each master gets a connection of its own: a store has to know which connection a request
 * has used and when it was lost, which the routing of node-redis hides. The connections end with the cluster, or when
 * nobody watches it.
 */
export class SharedCluster implements ClusterClient {
  readonly isCluster = true;
  readonly keyPrefix: string;
  readonly natMap: NatMap | undefined;
  slots: ClusterClient['slots'] = [];
  private readonly listeners = new Set<ClusterListener>();
  private readonly connections = new Map<string, OwnConnection>();
  /** A client with the options of all nodes. */
  private template: NodeRedisClient | undefined;
  private retryTimer: Timer | undefined;
  private reading: Promise<void> | undefined;
  /** How many times the connections were closed. */
  private closings = 0;
  /** How many times the slots were read. */
  private reads = 0;

  constructor(private readonly cluster: NodeRedisCluster) {
    const { keyPrefix = '', nodeAddressMap } = optionsOfCluster(cluster);
    this.keyPrefix = keyPrefix;
    this.natMap = nodeAddressMap;
    cluster.on('error', (error: Error) => this.reportError(error));
    cluster.on('connect', () => this.isUsed && this.readInBackground());
    cluster.on('disconnect', () => this.close());
  }

  get givenNodes(): readonly string[] {
    return (optionsOfCluster(this.cluster).rootNodes ?? []).map(rootAddress);
  }

  get status(): string {
    if (this.slots.length > 0) return 'ready';
    return this.cluster.isOpen ? 'connect' : 'wait';
  }

  nodeAt(address: string): OwnConnection | undefined {
    const connection = this.connections.get(address);
    return connection?.status === 'end' ? undefined : connection;
  }

  connectTo(address: string): OwnConnection | undefined {
    const { template, keyPrefix } = this;
    const settings = { name: 'nestjs-redis-lock', address, reconnects: false, keyPrefix };
    return template && new OwnConnection(template, settings);
  }

  /** Runs a script of no store, such as that of a fence, through the routing of node-redis. */
  run(command: 'eval' | 'evalsha', script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const names = keys.map((key) => this.keyPrefix + key);
    const words = [command, script, String(keys.length), ...names, ...args];
    return this.cluster.sendCommand(names[0], false, words, PLAIN).catch(rethrow);
  }

  /** Reads the slots in the background. The caller connects the cluster. */
  connect(): void {
    this.readInBackground();
  }

  /** Reads the slots once for all callers. */
  refresh(): Promise<void> {
    this.reading ??= this.read().finally(() => (this.reading = undefined));
    return this.reading;
  }

  watch(listener: ClusterListener): () => void {
    this.listeners.add(listener);
    if (this.listeners.size === 1) this.readInBackground();
    return () => {
      if (this.listeners.delete(listener) && !this.isUsed) this.close();
    };
  }

  private get isUsed(): boolean {
    return this.listeners.size > 0;
  }

  private readInBackground(): void {
    this.retryTimer?.cancel();
    // Its event `connect` comes here again.
    if (!this.cluster.isOpen) return;
    runOutside(() => {
      this.refresh().catch((error: unknown) => {
        this.reportError(toError(error));
        if (this.isUsed) this.retryTimer = clock.schedule(RETRY_AFTER_MS, () => this.readInBackground(), true);
      });
    });
  }

  private reportError(error: Error): void {
    for (const listener of this.listeners) listener.error?.(error);
  }

  private async read(): Promise<void> {
    if (!this.cluster.isOpen) throw new Error('the cluster of node-redis is not connected');
    this.template ??= await this.findTemplate();
    const { closings } = this;
    let lastError = new Error('the cluster of node-redis knows no master');
    for (const address of this.addressesToAsk()) {
      try {
        const slots = await this.readFrom(address);
        if (closings === this.closings) return this.use(slots);
      } catch (error) {
        lastError = toError(error);
      }
      if (closings !== this.closings) throw new Error('the connections to the cluster were closed during the read');
    }
    throw lastError;
  }

  private async findTemplate(): Promise<NodeRedisClient> {
    const found = this.cluster.masters.map(async (node) => this.cluster.nodeClient(node as never));
    return Promise.any(found);
  }

  /** Returns which nodes to ask for the slots: those with a connection first, then all that were ever known. */
  private addressesToAsk(): ReadonlySet<string> {
    const ready = [...this.connections.keys()].filter((address) => this.connections.get(address)?.status === 'ready');
    // A node that is cut off from the others replies with slots of old. The next read asks another one first.
    this.reads += 1;
    const first = this.reads % Math.max(ready.length, 1);
    return new Set([...ready.slice(first), ...ready.slice(0, first), ...this.knownAddresses()]);
  }

  /** Returns the masters of slots, the masters that node-redis knows, the replicas and the root nodes. */
  private knownAddresses(): ReadonlySet<string> {
    const { masters } = this.cluster;
    const ranges = [...new Set(this.slots)].filter((addresses) => addresses !== undefined);
    return new Set([
      ...ranges.map(([master]) => master),
      ...masters.map(({ host, port }) => `${host}:${port}`),
      ...ranges.flatMap(([, ...replicas]) => replicas),
      ...(optionsOfCluster(this.cluster).rootNodes ?? []).map(rootAddress),
    ]);
  }

  private async readFrom(address: string): Promise<ClusterClient['slots']> {
    const sent = this.connectionTo(address).send('cluster', [], ['SLOTS']);
    const reply = await withTimeout(clock, SLOTS_TIMEOUT_MS, sent, () => {
      throw new Error(`no reply to CLUSTER SLOTS within ${SLOTS_TIMEOUT_MS} ms`);
    });
    return addressesBySlot(reply, address, this.natMap);
  }

  private use(slots: ClusterClient['slots']): void {
    this.slots = slots;
    const ranges = [...new Set(slots)].filter((addresses) => addresses !== undefined);
    const members = new Set(ranges.flat());
    for (const [address, connection] of this.connections) if (!members.has(address)) connection.disconnect();
    for (const [master] of ranges) this.connectionTo(master);
    for (const listener of this.listeners) listener.refresh?.();
  }

  private connectionTo(address: string): OwnConnection {
    const known = this.nodeAt(address);
    if (known !== undefined) return known;
    const connection = this.connectTo(address) as OwnConnection;
    this.connections.set(address, connection);
    // The slot map asks for another connection by a refresh.
    connection.watch({
      end: () => {
        if (this.connections.get(address) === connection) this.connections.delete(address);
      },
    });
    connection.connect();
    return connection;
  }

  private close(): void {
    this.closings += 1;
    this.retryTimer?.cancel();
    this.slots = [];
    for (const connection of this.connections.values()) connection.disconnect();
    this.connections.clear();
  }
}

/** Returns the address of a node in the options of a cluster. */
function rootAddress({ url, socket }: NodeRedisRoot): string {
  const { hostname, port } = new URL(url ?? 'redis://localhost');
  const { host = hostname.replace(/^\[|\]$/g, ''), port: ownPort = Number(port) || 6379 } = socket ?? {};
  return `${host}:${ownPort}`;
}
