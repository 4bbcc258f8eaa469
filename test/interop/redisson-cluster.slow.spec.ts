import { afterAll, afterEach, beforeAll, describe, expect } from '@jest/globals';
import type { Redis } from 'ioredis';
import { type ClusterMember, RedisCluster } from '../support/redis/index.js';
import { eventually } from '../support/redis-locks.js';
import { buildJava } from './maven.js';
import { missing, itOnJava, wakeUp } from './on-java.js';
import { Peer } from './peer.js';

/** Names on all nodes. One has braces of its own. */
const NAMES = ['account-0', 'account-1', 'account-2', 'account-3', '{accounts}:1'];

let cluster: RedisCluster;
let peers: Peer[] = [];

beforeAll(async () => {
  if (missing === undefined) await buildJava();
});
afterEach(async () => {
  await Promise.all(peers.splice(0).map((peer) => peer.kill()));
  await cluster.flush();
});

/** Starts a JVM and two Node processes with the URLs of all nodes. */
async function started(): Promise<readonly [java: Peer, node: Peer, other: Peer]> {
  const urls = cluster.masters.map(({ server }) => server.url).join(',');
  const all = await Promise.all([Peer.java(urls), Peer.node(urls), Peer.node(urls)] as const);
  peers = [...all];
  return all;
}

function channelOf(name: string): string {
  return name.includes('{') ? `redisson_lock__channel:${name}` : `redisson_lock__channel:{${name}}`;
}

async function shardListeners(admin: Redis, channel: string): Promise<number> {
  const [, listeners] = (await admin.call('PUBSUB', 'SHARDNUMSUB', channel)) as [string, number];
  return listeners;
}

/** Increments a counter in all processes, by reading and writing. */
async function count(): Promise<void> {
  const all = await started();
  await Promise.all(all.map((peer) => peer.call('count', 'account-1', 'counter', '300')));
  const { admin } = await cluster.ownerOf('counter');
  expect(await admin.get('counter')).toBe('900');
  expect(await (await cluster.ownerOf('account-1')).admin.exists('account-1')).toBe(0);
}

/** Lets the JVM and Node wait for each other on each node. */
async function wakeEachOther(listeners: (node: ClusterMember, channel: string) => Promise<number>): Promise<void> {
  const [java, node] = await started();
  for (const name of NAMES) {
    const owner = await cluster.ownerOf(name);
    const listening = async () => (await listeners(owner, channelOf(name))) === 1;
    await wakeUp(java, node, name, listening);
    await eventually('nobody is subscribed', async () => !(await listening()));
    await wakeUp(node, java, name, listening);
    await eventually('nobody is subscribed', async () => !(await listening()));
  }
  for (const name of NAMES) expect(await (await cluster.ownerOf(name)).admin.exists(name)).toBe(0);
}

describe('redisson() beside Redisson in a cluster', () => {
  beforeAll(async () => {
    cluster = await RedisCluster.start({ replicas: false });
  });
  afterAll(() => cluster.close());

  itOnJava('loses no update of a counter by a JVM and two Node processes', count);

  itOnJava('notifies and is notified on sharded channels of every node', async () => {
    const owners = await Promise.all(NAMES.map((name) => cluster.ownerOf(name)));
    expect(new Set(owners).size).toBe(3);
    await wakeEachOther(({ admin }, channel) => shardListeners(admin, channel));
  });
});

describe('redisson() beside Redisson in a cluster without sharded channels', () => {
  beforeAll(async () => {
    // Redisson detects sharded channels by a subcommand of PUBSUB.
    const unknown = ['SPUBLISH', 'SSUBSCRIBE', 'SUNSUBSCRIBE', 'PUBSUB'];
    cluster = await RedisCluster.start({
      replicas: false,
      args: unknown.flatMap((name) => ['--rename-command', name, '']),
    });
  });
  afterAll(() => cluster.close());

  itOnJava('loses no update of a counter by a JVM and two Node processes', count);
});
