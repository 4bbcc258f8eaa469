import { Contention } from '../contention.js';
import { RedisLocks } from '../redis-locks.js';
import type { ServerManualClock } from './server-manual-clock.js';
import { needWallClocks } from './shim.js';
import { StoppedServers } from './stopped-servers.js';

needWallClocks();

/** Module instances that contend on a server whose clock stands still. They have the same clock. */
export class StoppedContention extends Contention {
  private ofThisTest: ServerManualClock | undefined;

  private constructor(readonly servers: StoppedServers) {
    super(servers.servers[0], servers.admin);
  }

  static override async start(): Promise<StoppedContention> {
    return new StoppedContention(await StoppedServers.start());
  }

  /** The clock of the server and of the instances, for one test. */
  get clock(): ServerManualClock {
    return (this.ofThisTest ??= this.servers.clock());
  }

  override async clear(): Promise<void> {
    await super.clear();
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
