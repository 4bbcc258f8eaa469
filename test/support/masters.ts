import { FenceKeys } from '../../lib/redis/slots.js';
import type { QuorumNode } from '../../lib/stores/quorum/quorum-node.js';
import type { QuorumStore } from '../../lib/stores/quorum/quorum.store.js';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-redis-lock';
import { quorum, type QuorumOptions } from 'nestjs-redis-lock/quorum';
import { RedisProxy } from './proxy.js';
import { adminOf, type RedisServer, startRedis } from './redis/index.js';
import { eventually, RedisLocks, type InstanceOptions } from './redis-locks.js';
import type { ServerManualClock } from './server-clock/server-manual-clock.js';
import { StoppedServers } from './server-clock/stopped-servers.js';
import { storeOf } from './inside.js';

/** On a busy machine, a node that is expected to vote may take longer than the default of 200 ms. */
export const NODE_TIMEOUT_MS = 500;
/** The default. A node may take half of it. */
const REQUEST_TIMEOUT_MS = 1_000;

/** The options of a quorum, and what an instance waits for. */
interface NodeOptions extends QuorumOptions {
  /** Default: all masters. */
  readonly nodes?: readonly string[];
  /** How many nodes accept or refuse a connection at the start. The others hang. Default: all. */
  readonly connectedTo?: number;
}

/** Masters of a quorum, and module instances that lock on them. */
export class Masters {
  private running!: RedisLocks;
  private readonly proxies: RedisProxy[] = [];
  private ofThisTest: ServerManualClock | undefined;
  private stopped: StoppedServers | undefined;
  servers!: readonly RedisServer[];
  admins!: readonly Redis[];

  /** @param stopped whether their clocks stand still. The instances have the same clock then. Needs gcc. */
  constructor(
    private readonly count: number,
    private readonly options: { readonly stopped?: boolean } = {},
  ) {}

  async start(): Promise<this> {
    const { count, options } = this;
    if (options.stopped === true) this.stopped = await StoppedServers.start(count);
    const own = (): Promise<RedisServer>[] => Array.from({ length: count }, () => startRedis({ local: true }));
    this.servers = this.stopped?.servers ?? (await Promise.all(own()));
    this.admins = this.servers.map(adminOf);
    this.running = this.open();
    return this;
  }

  /** The clock of stopped masters and of the instances, for one test. */
  get clock(): ServerManualClock {
    if (this.ofThisTest === undefined) throw new Error('these masters have the clock of the machine');
    return this.ofThisTest;
  }

  /** Pauses a master: its connections stay open without replies. */
  pause(master: number): void {
    const server = this.servers[master];
    if (this.stopped === undefined) server.pause();
    else this.stopped.pause(server);
  }

  resume(master: number): void {
    const server = this.servers[master];
    if (this.stopped === undefined) server.resume();
    else this.stopped.resume(server);
  }

  get urls(): readonly string[] {
    return this.servers.map(({ url }) => url);
  }

  get warnings(): readonly string[] {
    return this.running.warnings;
  }

  get prefix(): string {
    return this.running.prefix;
  }

  /** The key of goods:300. */
  get key(): string {
    return this.running.keyOf('goods', '300');
  }

  get fence(): string {
    return new FenceKeys(this.prefix).of(this.key);
  }

  /** Starts a module instance, and waits until it is connected. A node that refuses connections is not waited for. */
  async instance(options: InstanceOptions = {}, nodeOptions: NodeOptions = {}): Promise<LockService> {
    const { nodes = this.urls, connectedTo = nodes.length, ...quorumOptions } = nodeOptions;
    const nodeTimeoutMs = (options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS) / 2;
    const store = quorum(nodes, { nodeTimeoutMs: Math.min(NODE_TIMEOUT_MS, nodeTimeoutMs), ...quorumOptions });
    const locks = this.running.start({ waitMs: 20_000, store, ...options });
    // Connecting takes real time, whatever the clock says. A vote does not wait for a node that still connects.
    const nodesOf = storeOf<QuorumStore>(locks)['nodes'];
    const isSettled = ({ connection, outage }: QuorumNode): boolean =>
      connection.microsAt(0) !== undefined || outage !== undefined;
    await eventually('it is connected', () => nodesOf.filter(isSettled).length >= connectedTo);
    return locks;
  }

  /** Starts a proxy to one of the masters, which can fail. */
  async way(to: number): Promise<RedisProxy> {
    const proxy = await RedisProxy.start(this.urls[to]);
    this.proxies.push(proxy);
    return proxy;
  }

  /** Returns the instance that holds goods:300 on each master, or null. */
  async holders(): Promise<(string | null)[]> {
    const values = await Promise.all(this.admins.map((admin) => admin.get(this.key)));
    return values.map((value) => value?.split(':')[0] ?? null);
  }

  /** Returns on how many masters goods:300 is locked. */
  async locked(): Promise<number> {
    return (await this.holders()).filter((holder) => holder !== null).length;
  }

  async lockedOn(count: number): Promise<void> {
    await eventually(`it is locked on ${count} masters`, async () => (await this.locked()) === count);
  }

  /** Closes all instances, starts all masters that do not run, and empties them. */
  async clear(): Promise<void> {
    for (const proxy of this.proxies) for (const direction of ['requests', 'replies'] as const) proxy.resume(direction);
    await this.running.close();
    await Promise.all(this.proxies.splice(0).map((proxy) => proxy.close()));
    const dead = this.servers.filter(({ pid }) => pid === undefined);
    for (const [i, server] of this.servers.entries()) if (!dead.includes(server)) this.resume(i);
    await Promise.all(dead.map((server) => server.restart()));
    await Promise.all(this.admins.map((admin) => admin.flushall()));
    this.running = this.open();
  }

  async close(): Promise<void> {
    await this.running.close();
    for (const admin of this.admins) admin.disconnect();
    await (this.stopped?.stop() ?? Promise.all(this.servers.map((server) => server.stop())));
  }

  private open(): RedisLocks {
    this.ofThisTest = this.stopped?.clock();
    return new RedisLocks(this.ofThisTest);
  }
}
