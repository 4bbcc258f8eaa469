import { Redis } from 'ioredis';
import { adminOf, type RedisServer, startRedis } from '../redis/index.ts';
import { type ClockedServers, ServerManualClock } from './server-manual-clock.ts';
import { WallClock } from './wall-clock.ts';

/** The commands by which a look at a server counts its commands, without the look itself. */
const COMMANDS = /total_commands_processed:(\d+)/;
const START = Date.UTC(2026, 0, 1);

/** Redis servers with one wall clock, which stands still until the test moves it. */
export class StoppedServers implements ClockedServers {
  private latest = START;
  private readonly looks: readonly { readonly server: RedisServer; readonly admin: Redis; count: number }[];
  private readonly paused = new Set<RedisServer>();

  private constructor(
    private readonly wallClock: WallClock,
    readonly servers: readonly RedisServer[],
  ) {
    this.looks = servers.map((server) => ({ server, admin: adminOf(server), count: 0 }));
  }

  /**
   * Starts servers. Needs gcc, see `canSetWallClocks`.
   *
   * @param ticks see `WallClock.create`.
   */
  static async start(count = 1, ticks = false): Promise<StoppedServers> {
    const wallClock = await WallClock.create({ ticks });
    wallClock.stopAt(START * 1_000);
    const starting = Array.from({ length: count }, () => startRedis({ local: true, variables: wallClock.variables }));
    const servers = new StoppedServers(wallClock, await Promise.all(starting));
    await servers.check();
    return servers;
  }

  get urls(): readonly string[] {
    return this.servers.map(({ url }) => url);
  }

  /** The address of the first server. */
  get url(): string {
    return this.servers[0].url;
  }

  /** A connection to each server. What they send counts as a command. */
  get admins(): readonly Redis[] {
    return this.looks.map(({ admin }) => admin);
  }

  /** A connection to the first server. */
  get admin(): Redis {
    return this.looks[0].admin;
  }

  /** Pauses a server: connections stay open without replies, and the clock does not wait for it. */
  pause(server = this.servers[0]): void {
    this.paused.add(server);
    server.pause();
  }

  resume(server = this.servers[0]): void {
    server.resume();
    this.paused.delete(server);
  }

  /**
   * Returns a manual clock that moves the servers along. Each test should have its own, without timers of others. It
   * begins at the latest time that the servers have had, even after a test that has set it back.
   */
  clock(): ServerManualClock {
    this.setWallTime(this.latest);
    return new ServerManualClock(this, this.latest);
  }

  setWallTime(ms: number): void {
    this.latest = Math.max(this.latest, ms);
    this.wallClock.stopAt(Math.round(ms * 1_000));
  }

  async commandsRun(): Promise<number> {
    const running = this.looks.filter(({ server }) => server.pid !== undefined && !this.paused.has(server));
    const counts = running.map(async (look) => {
      look.count += 1;
      return Number(COMMANDS.exec(await look.admin.info('stats'))?.[1]) - look.count;
    });
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  async stop(): Promise<void> {
    for (const { admin } of this.looks) admin.disconnect();
    await Promise.all(this.servers.map((server) => server.stop()));
  }

  /** Throws if a server does not have the clock, because it is linked statically. */
  private async check(): Promise<void> {
    for (const { admin } of this.looks) {
      const [seconds] = await admin.time();
      if (Math.abs(seconds * 1_000 - START) > 60_000) throw new Error('the clock of a server is not the test’s');
    }
  }
}
