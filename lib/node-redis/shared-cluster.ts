import { runOutside } from '../core/context/async-context.js';
import { SystemClock, type Timer, withTimeout } from '../core/time/clock.js';
import type { ClusterNodeClient, RedisCluster } from '../redis/cluster/cluster-client.js';
import { formatAddress, type NatMap } from '../redis/redirection.js';
import { toError } from '../redis/redis-errors.js';
import { type AdapterEvent, ClientEvents } from './client-events.js';
import { scriptCommand } from './script-command.js';
import {
  type NodeRedisClient,
  type NodeRedisCluster,
  type NodeRedisRoot,
  optionsOfCluster,
  PLAIN,
  rethrow,
  written,
} from './node-redis.js';
import { OwnConnection } from './own-connection.js';
import { addressesBySlot } from './slot-table.js';

/** How long a node may take to reply with the slots before the next one is asked, in milliseconds. */
const SLOTS_TIMEOUT_MS = 1_000;

/** The pause before the slots are read again while no node has replied with them, in milliseconds. */
const RETRY_AFTER_MS = 200;

/** Where a script's first key stands in its command. */
const FIRST_KEY = 3;

const clock = new SystemClock();

/**
 * A cluster of node-redis that belongs to the caller, as stores see one of ioredis. Only its list of nodes and the
 * options of their clients are used. The slots are read here, and each master gets a connection of its own: a store has
 * to know which connection a request has used and when it was lost, which the routing of node-redis hides. The
 * connections end with the cluster, or when the last store has stopped listening to `refresh`.
 */
export class SharedCluster extends ClientEvents implements RedisCluster {
  readonly isCluster = true;
  readonly written = written;
  readonly options: { readonly keyPrefix: string; readonly natMap: NatMap | undefined };
  slots: readonly (readonly string[] | undefined)[] = [];
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
    super();
    const { keyPrefix = '', nodeAddressMap } = optionsOfCluster(cluster);
    // A function of node-redis returns undefined for an address that stays as it is.
    const natMap = typeof nodeAddressMap === 'function' ? (at: string) => nodeAddressMap(at) ?? null : nodeAddressMap;
    this.options = { keyPrefix, natMap };
    cluster.on('error', (error: Error) => this.emit('error', error));
    cluster.on('connect', () => this.isUsed && this.readInBackground());
    cluster.on('disconnect', () => this.close());
  }

  get status(): string {
    if (this.slots.length > 0) return 'ready';
    return this.cluster.isOpen ? 'connect' : 'wait';
  }

  nodes(role: 'all' | 'master'): readonly ClusterNodeClient[] {
    const masters = new Set(this.slots.map((addresses) => addresses?.[0]));
    const known = [...this.connections].filter(([address]) => role === 'all' || masters.has(address));
    return known.map(([, connection]) => connection);
  }

  /** Runs a script of no store, such as that of a fence, by the routing of node-redis. */
  eval(script: string, keyCount: number, ...args: string[]): Promise<unknown> {
    return this.sendByKey('EVAL', script, keyCount, args);
  }

  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown> {
    return this.sendByKey('EVALSHA', sha, keyCount, args);
  }

  /** Not supported. Stores use the pipelines of nodes. */
  pipeline(): never {
    throw new Error('a cluster of node-redis has no pipeline for all nodes');
  }

  /** Reads the slots in the background. The caller connects the cluster. */
  connect(): Promise<void> {
    this.readInBackground();
    return Promise.resolve();
  }

  refreshSlotsCache(onRead: (error?: unknown) => void): void {
    this.readOnce().then(() => onRead(), onRead);
  }

  override on(event: AdapterEvent, listener: (...args: never[]) => void): this {
    super.on(event, listener);
    if (event === 'refresh' && this.listenerCount('refresh') === 1) this.readInBackground();
    return this;
  }

  override off(event: AdapterEvent, listener: (...args: never[]) => void): this {
    super.off(event, listener);
    if (event === 'refresh' && !this.isUsed) this.close();
    return this;
  }

  private sendByKey(command: 'EVAL' | 'EVALSHA', script: string, keyCount: number, args: string[]): Promise<unknown> {
    const whole = scriptCommand(command, this.options.keyPrefix, script, keyCount, args);
    return this.cluster.sendCommand(whole[FIRST_KEY], false, whole, PLAIN).catch(rethrow);
  }

  private get isUsed(): boolean {
    return this.listenerCount('refresh') > 0;
  }

  private readInBackground(): void {
    this.retryTimer?.cancel();
    // Its event `connect` comes here again.
    if (!this.cluster.isOpen) return;
    runOutside(() => {
      this.readOnce().catch((error: unknown) => {
        this.emit('error', toError(error));
        if (this.isUsed) this.retryTimer = clock.schedule(RETRY_AFTER_MS, () => this.readInBackground(), true);
      });
    });
  }

  /** Reads the slots once for all callers. */
  private readOnce(): Promise<void> {
    this.reading ??= this.read().finally(() => (this.reading = undefined));
    return this.reading;
  }

  private async read(): Promise<void> {
    if (!this.cluster.isOpen) throw new Error('the cluster of node-redis is not connected');
    this.template ??= await this.findTemplate();
    const { closings } = this;
    let lastError = new Error('the cluster of node-redis knows no master');
    for (const connection of this.connectionsToAsk()) {
      try {
        const slots = await this.readFrom(connection);
        if (closings === this.closings) return this.use(slots);
      } catch (error) {
        lastError = toError(error);
      }
      if (closings !== this.closings) throw new Error('the connections to the cluster were closed meanwhile');
    }
    throw lastError;
  }

  private async findTemplate(): Promise<NodeRedisClient> {
    const found = this.cluster.masters.map(async (node) => this.cluster.nodeClient(node as never));
    return Promise.any(found);
  }

  /** Yields connections to ask for the slots: those that are ready first, then all nodes that were ever known. */
  private *connectionsToAsk(): Generator<OwnConnection> {
    const ready = [...this.connections.values()].filter(({ status }) => status === 'ready');
    // A node that is cut off from the others replies with slots of old. The next read asks another one first.
    this.reads += 1;
    const first = this.reads % Math.max(ready.length, 1);
    yield* [...ready.slice(first), ...ready.slice(0, first)];
    for (const address of this.knownAddresses()) {
      if (this.connections.get(address)?.status !== 'ready') yield this.connectTo(address);
    }
  }

  /** Returns the masters of slots, the masters that node-redis knows, the replicas and the root nodes. */
  private knownAddresses(): ReadonlySet<string> {
    const { masters } = this.cluster;
    const ranges = [...new Set(this.slots)].filter((addresses) => addresses !== undefined);
    return new Set([
      ...ranges.map(([master]) => master),
      ...masters.map(({ host, port }) => formatAddress({ host, port })),
      ...ranges.flatMap(([, ...replicas]) => replicas),
      ...(optionsOfCluster(this.cluster).rootNodes ?? []).map(rootAddress),
    ]);
  }

  private async readFrom(connection: OwnConnection): Promise<readonly (readonly string[] | undefined)[]> {
    const reply = await withTimeout(clock, SLOTS_TIMEOUT_MS, connection.cluster('SLOTS'), () => {
      throw new Error(`no reply to CLUSTER SLOTS within ${SLOTS_TIMEOUT_MS} ms`);
    });
    return addressesBySlot(reply, String(connection.options.host), this.options.natMap);
  }

  private use(slots: readonly (readonly string[] | undefined)[]): void {
    const isFirst = this.slots.length === 0;
    this.slots = slots;
    const ranges = [...new Set(slots)].filter((addresses) => addresses !== undefined);
    const members = new Set(ranges.flat());
    for (const [address, connection] of this.connections) if (!members.has(address)) connection.disconnect();
    for (const [master] of ranges) this.connectTo(master);
    this.emit('refresh');
    if (isFirst) this.emit('ready');
  }

  private connectTo(address: string): OwnConnection {
    const known = this.connections.get(address);
    if (known !== undefined && known.status !== 'end') return known;
    const at = address.lastIndexOf(':');
    const connection = new OwnConnection(this.template as NodeRedisClient, {
      name: 'nestjs-redis-lock',
      address: { host: address.slice(0, at), port: Number(address.slice(at + 1)) },
      reconnects: false,
      prefix: '',
    });
    this.connections.set(address, connection);
    // The slot map asks for another connection by a refresh.
    connection.on('end', () => {
      if (this.connections.get(address) === connection) this.connections.delete(address);
    });
    void connection.connect();
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
  return formatAddress({ host, port: ownPort });
}
