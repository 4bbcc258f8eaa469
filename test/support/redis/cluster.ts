import { createServer } from 'node:net';
import { Command, Redis } from 'ioredis';
import { withinMs } from '../within-ms.ts';
import { eventually } from '../async.ts';
import { adminOf } from './admin.ts';
import { startRedis } from './resolve.ts';
import type { RedisServer } from './types.ts';

const SLOTS = 16_384;

/** Any replica that has ever synchronised may take over. */
const NODE_ARGUMENTS =
  '--cluster-enabled yes --cluster-replica-validity-factor 0 ' +
  '--repl-diskless-sync-delay 0 --repl-ping-replica-period 1';

/** No node declares another one dead, also on a machine that stops for seconds. */
const PATIENT_MS = 30_000;
/** Nodes detect a failure fast, and replace masters by themselves. */
export const DETECTS_FAILURES_MS = 800;

export interface RedisClusterStart {
  /** Further variables of each master and of its replica. Three masters by default. */
  readonly environments?: readonly NodeJS.ProcessEnv[];
  /** Whether each master has a replica. */
  readonly replicas?: boolean;
  /** The ports of the masters, then of the replicas. Free ports by default. */
  readonly ports?: readonly number[];
  /** Further arguments of each server. */
  readonly args?: readonly string[];
  /** After that time without a reply a node declares another one dead. Default: 30 s. */
  readonly nodeTimeoutMs?: number;
}

/** One server of a cluster. */
export interface ClusterMember {
  readonly server: RedisServer;
  readonly admin: Redis;
}

/** Masters and replicas on this machine. The first master has the lowest slots. */
export class RedisCluster {
  private readonly joined: ClusterMember[] = [];

  private constructor(
    readonly masters: readonly ClusterMember[],
    readonly replicas: readonly ClusterMember[],
  ) {}

  static async start(options: RedisClusterStart = {}): Promise<RedisCluster> {
    const { environments = [{}, {}, {}], replicas = true, ports, args = [], nodeTimeoutMs = PATIENT_MS } = options;
    const each = replicas ? [...environments, ...environments] : environments;
    const all = ['--cluster-node-timeout', String(nodeTimeoutMs), ...args];
    const members = await Promise.all(each.map((env, i) => startMember(env, ports?.[i], all)));
    const cluster = new RedisCluster(members.slice(0, environments.length), members.slice(environments.length));
    try {
      await cluster.form();
    } catch (error) {
      await cluster.close();
      throw error;
    }
    return cluster;
  }

  get members(): readonly ClusterMember[] {
    return [...this.masters, ...this.replicas, ...this.joined];
  }

  get nodes(): readonly { readonly host: string; readonly port: number }[] {
    return this.members.map(({ server }) => ({ host: '127.0.0.1', port: server.port }));
  }

  /** Returns the member that serves the key according to a majority of running members. Waits until they agree. */
  async ownerOf(key: string): Promise<ClusterMember> {
    const slot = slotOf(key);
    let owner = await this.ownerByMajority(slot);
    await eventually(
      `the nodes agree on the owner of slot ${slot}`,
      async () => (owner ??= await this.ownerByMajority(slot)) !== undefined,
    );
    return owner as ClusterMember;
  }

  private async ownerByMajority(slot: number): Promise<ClusterMember | undefined> {
    const { members } = this;
    const running = members.filter(({ server }) => server.pid !== undefined);
    const told = await Promise.all(running.map((member) => ownerAsToldBy(member, slot)));
    return members.find(({ server }) => told.filter((port) => port === server.port).length * 2 > told.length);
  }

  /** Returns the replica that was started with that master. */
  replicaOf(master: ClusterMember): ClusterMember {
    return this.replicas[this.masters.indexOf(master)];
  }

  /** Makes a replica the master of its slots, whatever has become of its master. */
  async takeOver({ admin }: ClusterMember): Promise<void> {
    await admin.call('CLUSTER', 'FAILOVER', 'TAKEOVER');
  }

  /** Starts to move the key's slot to another member. Returns the next steps. */
  async migration(key: string, to: ClusterMember) {
    const from = await this.ownerOf(key);
    const slot = slotOf(key);
    const [source, target] = await Promise.all([from, to].map(({ admin }) => admin.cluster('MYID')));
    await to.admin.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source);
    await from.admin.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target);
    return {
      from,
      /** Migrates all keys of the slot. */
      moveKeys: async () => {
        const keys = (await from.admin.call('CLUSTER', 'GETKEYSINSLOT', slot, 1_000)) as string[];
        if (keys.length === 0) return;
        await from.admin.call('MIGRATE', '127.0.0.1', to.server.port, '', 0, 5_000, 'KEYS', ...keys);
      },
      /** Announces the new owner, to that node first. */
      finish: async () => {
        const others = this.masters.filter((member) => member !== to && member !== from);
        for (const { admin, server } of [to, from, ...others]) {
          if (server.pid !== undefined) await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', target);
        }
      },
    };
  }

  /** Moves the key's slot to another member. */
  async migrate(key: string, to: ClusterMember): Promise<void> {
    const { moveKeys, finish } = await this.migration(key, to);
    await moveKeys();
    await finish();
  }

  /** Returns a master that does not have the key. */
  async otherThan(key: string): Promise<ClusterMember> {
    const owner = await this.ownerOf(key);
    return this.masters.find((member) => member !== owner) as ClusterMember;
  }

  /** Starts one more master without slots. */
  async join(): Promise<ClusterMember> {
    const member = await startMember({}, undefined, ['--cluster-node-timeout', String(PATIENT_MS)]);
    const [{ admin }] = this.masters;
    // Otherwise it becomes a replica once it has lost its last slot.
    await member.admin.config('SET', 'cluster-allow-replica-migration', 'no');
    this.joined.push(member);
    await admin.call('CLUSTER', 'MEET', '127.0.0.1', member.server.port);
    const known = String(this.members.length);
    await untilAll('all know it', this.members, async (one) => (await knownTo(one)) === known);
    await untilAll('it is up', [member], isUp);
    return member;
  }

  /** Makes all members forget a joined one, and stops it. */
  async leave(member: ClusterMember): Promise<void> {
    const id = await member.admin.cluster('MYID');
    this.joined.splice(this.joined.indexOf(member), 1);
    for (const { admin } of this.members) await admin.call('CLUSTER', 'FORGET', id);
    member.admin.disconnect();
    await member.server.stop();
  }

  async flush(): Promise<void> {
    await Promise.all(this.members.map(({ admin }) => admin.flushall().catch(() => undefined)));
  }

  async close(): Promise<void> {
    for (const { admin } of this.members) admin.disconnect();
    await Promise.all(this.members.map(({ server }) => server.stop()));
  }

  private async form(): Promise<void> {
    const { masters, members, replicas } = this;
    const share = Math.ceil(SLOTS / masters.length);
    for (const [i, { admin }] of members.entries()) await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
    for (const [i, { admin }] of masters.entries()) {
      await admin.call('CLUSTER', 'ADDSLOTSRANGE', i * share, Math.min(SLOTS, (i + 1) * share) - 1);
    }
    const [{ admin: first }, ...others] = members;
    for (const { server } of others) await first.call('CLUSTER', 'MEET', '127.0.0.1', server.port);
    await untilAll('all know one another', members, async (one) => (await knownTo(one)) === String(members.length));
    for (const [i, { admin }] of replicas.entries()) {
      const master = await masters[i].admin.cluster('MYID');
      await untilAll('its master is known', [replicas[i]], async () =>
        admin.call('CLUSTER', 'REPLICATE', master).then(
          () => true,
          () => false,
        ),
      );
    }
    await untilAll('the cluster is up', members, isUp);
    await untilAll('replicas follow', replicas, async ({ admin }) =>
      (await admin.info('replication')).includes('master_link_status:up'),
    );
    await untilAll('all know who is a replica', members, async (member) => {
      return (await nodesOf(member)).filter((node) => node.includes('slave')).length === replicas.length;
    });
    // A message is published to nodes with a link only. `cluster_state:ok` does not wait for links.
    await untilAll('all have links to all others', members, async (member) => {
      const nodes = await nodesOf(member);
      const linked = nodes.filter((node) => node.includes(' connected') && !node.includes('handshake'));
      return linked.length === members.length;
    });
  }
}

function slotOf(key: string): number {
  return new Command('get', [key]).getSlot();
}

/** Returns the number of members that it knows, itself included. */
async function knownTo({ admin }: ClusterMember): Promise<string | undefined> {
  return /cluster_known_nodes:(\d+)/.exec(await infoOf(admin))?.[1];
}

/** Returns a line for each node that a member knows, itself included. */
async function nodesOf({ admin }: ClusterMember): Promise<readonly string[]> {
  return ((await admin.call('CLUSTER', 'NODES')) as string).trim().split('\n');
}

async function isUp({ admin }: ClusterMember): Promise<boolean> {
  return (await infoOf(admin)).includes('cluster_state:ok');
}

async function infoOf(admin: Redis): Promise<string> {
  return (await admin.call('CLUSTER', 'INFO')) as string;
}

async function ownerAsToldBy({ admin }: ClusterMember, slot: number): Promise<number> {
  const ranges = (await withinMs(500, admin.call('CLUSTER', 'SLOTS'), [])) as [number, number, [string, number]][];
  return ranges.find(([from, to]) => slot >= from && slot <= to)?.[2][1] ?? 0;
}

async function untilAll(
  what: string,
  members: readonly ClusterMember[],
  holds: (member: ClusterMember) => Promise<boolean>,
) {
  for (const member of members) await eventually(what, () => holds(member));
}

async function startMember(
  variables: NodeJS.ProcessEnv,
  port: number | undefined,
  args: readonly string[],
): Promise<ClusterMember> {
  const server = await startRedis({
    local: true,
    port: port ?? (await clusterPort()),
    args: [...NODE_ARGUMENTS.split(' '), ...args],
    variables,
  });
  return { server, admin: adminOf(server) };
}

/** Returns a free port whose bus port, 10,000 above, is free too. Both are below the ephemeral range. */
export async function clusterPort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 10_000);
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
