import { Contention } from '../contention.js';
import { RedisLocks } from '../redis-locks.js';
import type { ServerManualClock } from './server-manual-clock.js';
import { needWallClocks } from './shim.js';
import { StoppedServers } from './stopped-servers.js';

needWallClocks();

/** Module instances that contend on servers whose clock stands still. They have the same clock. */
export class StoppedContention extends Contention {
  private ofThisTest: ServerManualClock | undefined;
  servers!: StoppedServers;

  /** @param count of servers. The instances use the first one. */
  constructor(private readonly count = 1) {
    super();
  }

  override async start(): Promise<this> {
    this.servers = await StoppedServers.start(this.count);
    [this.server] = this.servers.servers;
    this.admin = this.servers.admin;
    return this;
  }

  /** The clock of the servers and of the instances, for one test. */
  get clock(): ServerManualClock {
    return (this.ofThisTest ??= this.servers.clock());
  }

  override async clear(): Promise<void> {
    for (const server of this.servers.servers) if (server.pid !== undefined) this.servers.resume(server);
    await super.clear();
    await Promise.all(this.servers.admins.map((admin) => admin.flushall()));
    this.ofThisTest = undefined;
  }

  override async close(): Promise<void> {
    await super.close();
    await this.servers.stop();
  }

  protected override open(): RedisLocks {
    return new RedisLocks(this.clock);
  }
}
