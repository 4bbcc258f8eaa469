import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { steeredClock } from '../../support/clock-ahead.js';
import { RedisProxy } from '../../support/proxy.js';
import { startRedis } from '../../support/redis/index.js';
import { PREFIX } from '../workload/orders.js';
import type { LockServer, Topology, TopologyOptions } from './topology.js';

/** One server, or several that know nothing of each other. */
export class MastersTopology implements Topology {
  private readonly proxies: RedisProxy[] = [];

  private constructor(
    readonly servers: readonly LockServer[],
    private readonly folders: readonly string[],
  ) {}

  static async start(count: number, options: TopologyOptions): Promise<MastersTopology> {
    const folders = await Promise.all(Array.from({ length: count }, () => mkdtemp(join(tmpdir(), 'chaos-redis-'))));
    const servers = await Promise.all(folders.map((folder) => startServer(folder, options)));
    return new MastersTopology(servers, folders);
  }

  get version(): string {
    return this.victim.server.version;
  }

  get victim(): LockServer {
    return this.servers[0];
  }

  async ways(): Promise<readonly RedisProxy[]> {
    const ways = await Promise.all(this.servers.map(({ server }) => RedisProxy.start(server.url)));
    this.proxies.push(...ways);
    return ways;
  }

  async leftovers(): Promise<readonly string[]> {
    const keys = await Promise.all(this.servers.map(({ admin }) => admin.keys(`*${PREFIX}*`)));
    return keys.flat().filter((key) => !REMEMBERED.test(key));
  }

  async close(): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.close()));
    for (const { admin, server } of this.servers) {
      admin.disconnect();
      if (server.pid !== undefined) server.resume();
    }
    await Promise.all(this.servers.map(({ server }) => server.stop()));
    await Promise.all(this.folders.map((folder) => rm(folder, { recursive: true, force: true })));
  }
}

/** What outlives a lock by design: the last token. */
const REMEMBERED = /\|fence$|^redisson_lock_token:/;

async function startServer(folder: string, { clocks, durable }: TopologyOptions): Promise<LockServer> {
  const clock = clocks ? await steeredClock() : undefined;
  const args = durable ? ['--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always'] : [];
  const server = await startRedis({ local: true, env: { ...process.env, ...clock?.env }, args });
  return { server, admin: adminOf(server.url), clock };
}

/** It is back as soon as its server is. */
function adminOf(url: string): Redis {
  const admin = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 10, disconnectTimeout: 50 });
  return admin.on('error', () => undefined);
}
