import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WallClock } from '../../server-clock/wall-clock.js';
import { RedisProxy } from '../../proxy.js';
import { adminOf, startRedis } from '../../redis/index.js';
import type { Access, LockServer, Topology, TopologyOptions } from './topology.js';

/** One server, or several independent servers. */
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

  get victim(): LockServer {
    return this.servers[0];
  }

  /** Starts a proxy for each server. */
  async access(): Promise<Access> {
    const ways = await Promise.all(this.servers.map(({ server }) => RedisProxy.start(server.url)));
    this.proxies.push(...ways);
    return { places: ways.map(({ url }) => url), ways };
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

async function startServer(folder: string, { clocks, durable }: TopologyOptions): Promise<LockServer> {
  const clock = clocks ? await WallClock.create() : undefined;
  const args = durable ? ['--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always'] : [];
  const server = await startRedis({ local: true, variables: clock?.variables, args });
  return { server, admin: adminOf(server), clock };
}
