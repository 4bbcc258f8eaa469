import { Redis } from 'ioredis';
import { eventually } from '../async.ts';
import { adminOf } from './admin.ts';
import { startRedis } from './resolve.ts';
import type { RedisServer } from './types.ts';

const NAME = 'locks';
/**
 * Sentinel connects to a server once a second at most, also to a new master. With less than a second it takes a new
 * master for dead before it has connected, and replaces it again and again, even by an empty one.
 */
const DOWN_AFTER_MS = 2_000;

interface Size {
  readonly replicas: number;
  /** 0: no Sentinel fails over. */
  readonly sentinels: number;
}

/** Where clients find the master. */
export interface SentinelAddress {
  readonly sentinels: { readonly host: string; readonly port: number }[];
  readonly name: string;
}

/** A master, its replicas and their Sentinels, as processes of this machine. */
export class ReplicaSet {
  private readonly admins = new Map<RedisServer, Redis>();

  private constructor(
    /** The first master, and the first replicas. */
    readonly servers: readonly RedisServer[],
    readonly sentinels: readonly RedisServer[],
  ) {}

  static async start({ replicas, sentinels }: Size): Promise<ReplicaSet> {
    // Without a delay before the first synchronisation, which is 5 s otherwise.
    const quick = ['--repl-diskless-sync-delay', '0'];
    const master = await startRedis({ local: true, args: quick });
    const copies = Array.from({ length: replicas }, () =>
      startRedis({ local: true, args: [...quick, '--replicaof', '127.0.0.1', String(master.port)] }),
    );
    const servers = [master, ...(await Promise.all(copies))];
    const watchers = Array.from({ length: sentinels }, () =>
      startRedis({ local: true, sentinel: sentinelConfiguration(master.port, Math.ceil((sentinels + 1) / 2)) }),
    );
    const set = new ReplicaSet(servers, await Promise.all(watchers));
    await set.whole();
    return set;
  }

  /** For `redis` of the module, and for ioredis clients. */
  get address(): SentinelAddress {
    return { sentinels: this.sentinels.map(({ port }) => ({ host: '127.0.0.1', port })), name: NAME };
  }

  /** Opens a client of that server. */
  adminOf(server: RedisServer): Redis {
    let admin = this.admins.get(server);
    if (admin === undefined) {
      admin = adminOf(server);
      this.admins.set(server, admin);
    }
    return admin;
  }

  /** Returns the master that the Sentinels agree on. */
  async master(): Promise<RedisServer> {
    let agreed: RedisServer | undefined;
    await eventually('the Sentinels agree', async () => {
      const ports = await Promise.all(this.sentinels.map((sentinel) => this.masterBy(sentinel)));
      agreed = this.servers.find(({ port }) => ports.every((one) => one === port));
      return agreed !== undefined;
    });
    return agreed as RedisServer;
  }

  /** Waits until all Sentinels name another master and that server reports the role itself. */
  async newMaster(before: RedisServer): Promise<RedisServer> {
    let server = before;
    await eventually('there is another master', async () => {
      server = await this.master();
      return server !== before && (await this.replication(server)).includes('role:master');
    });
    return server;
  }

  /** Kills the master. Returns the next one. */
  async failOver(): Promise<RedisServer> {
    const before = await this.master();
    await before.kill();
    return this.newMaster(before);
  }

  /** Starts a killed server again, as a replica of the present master. */
  async rejoin(server: RedisServer): Promise<void> {
    const master = await this.master();
    await server.restart();
    await this.adminOf(server).replicaof('127.0.0.1', master.port);
  }

  /** Kills the master before its last write has reached a replica. */
  async failOverWithout(lastWrite: () => Promise<unknown>): Promise<RedisServer> {
    const before = await this.master();
    const replicas = this.servers.filter((server) => server !== before && server.pid !== undefined);
    for (const replica of replicas) replica.pause();
    // Otherwise the write would stay in their sockets and be applied once they continue.
    await this.adminOf(before).call('CLIENT', 'KILL', 'TYPE', 'replica');
    await lastWrite();
    await before.kill();
    for (const replica of replicas) replica.resume();
    return this.newMaster(before);
  }

  /** Makes a Sentinel replace a master that is alive, and waits until it is a replica. Returns the next master. */
  async replace(before: RedisServer): Promise<RedisServer> {
    const [sentinel] = this.sentinels;
    await eventually('a Sentinel begins the failover', async () => {
      const reply = this.adminOf(sentinel).call('SENTINEL', 'FAILOVER', NAME);
      return (await reply.catch(() => undefined)) === 'OK';
    });
    const next = await this.newMaster(before);
    // Until then, clients still write to it.
    const isReplica = async (): Promise<boolean> => (await this.replication(before)).includes('role:slave');
    await eventually('the old master is a replica', isReplica);
    return next;
  }

  /** Waits until every live replica has the value. */
  async replicated(key: string): Promise<void> {
    const master = await this.master();
    const live = this.servers.filter((server) => server !== master && server.pid !== undefined);
    await eventually('the replicas have it', async () => {
      const [value, ...others] = await Promise.all([master, ...live].map((each) => this.adminOf(each).get(key)));
      return value !== null && others.every((other) => other === value);
    });
  }

  async close(): Promise<void> {
    for (const admin of this.admins.values()) admin.disconnect();
    for (const server of [...this.servers, ...this.sentinels]) if (server.pid !== undefined) server.resume();
    await Promise.all([...this.servers, ...this.sentinels].map((server) => server.stop()));
  }

  /** Waits until all replicas are linked and every Sentinel knows the others. */
  private async whole(): Promise<void> {
    const [master] = this.servers;
    const replicas = this.servers.length - 1;
    const linked = new RegExp(`connected_slaves:${replicas}\\b`);
    await eventually('all replicas are linked', async () => {
      const info = await this.replication(master);
      return linked.test(info) && (info.match(/state=online/g)?.length ?? 0) === replicas;
    });
    // A linked replica may still load its data.
    await eventually('all replicas acknowledge', async () => {
      await this.adminOf(master).multi().set('written', 1).del('written').exec();
      return (await this.adminOf(master).wait(replicas, 50)) === replicas;
    });
    const known = `slaves=${replicas},sentinels=${this.sentinels.length}`;
    for (const sentinel of this.sentinels) {
      await eventually('all Sentinels know each other', async () =>
        (await this.adminOf(sentinel).info('sentinel')).includes(known),
      );
    }
  }

  private replication(server: RedisServer): Promise<string> {
    return this.adminOf(server).info('replication');
  }

  private async masterBy(sentinel: RedisServer): Promise<number> {
    const found = await this.adminOf(sentinel).call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME);
    return Number((found as string[])[1]);
  }
}

function sentinelConfiguration(masterPort: number, quorum: number): string {
  return [
    `sentinel monitor ${NAME} 127.0.0.1 ${masterPort} ${quorum}`,
    `sentinel down-after-milliseconds ${NAME} ${DOWN_AFTER_MS}`,
    `sentinel failover-timeout ${NAME} 3000`,
    `sentinel parallel-syncs ${NAME} 2`,
    '',
  ].join('\n');
}
