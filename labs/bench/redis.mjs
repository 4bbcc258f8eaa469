// A private Redis on a free port, or a cluster of three, without persistence. They end with this process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep } from './clock.mjs';
import { connect, Redis } from './library.mjs';

// Processes that this one forks have it from their environment.
if (!process.env.REDIS_SERVER_BIN) await (await import('../../test/support/find-redis.mjs')).findRedis();

/** The server of all scenarios, except those that run on several versions. */
export const BINARY = process.env.REDIS_SERVER_BIN;

// The shell reads a pipe of this process. It ends the server when the pipe closes, even after a kill -9.
// A thousand module instances have two thousand connections.
const GUARD = 'ulimit -n 10100; "$@" & server=$!; cat >/dev/null; kill -9 $server';

const SLOTS = 16_384;
const MASTERS = 3;

/**
 * @param {readonly string[]} [more] further arguments
 * @returns {Promise<{ url: string, port: number, stop: () => Promise<void> }>}
 */
export async function startRedis(more = []) {
  const port = await freePort();
  const network = ['--port', port, '--bind', '127.0.0.1', '--maxclients', '10000'];
  const args = [...network, '--save', '', '--appendonly', 'no', ...more];
  const guard = spawn('sh', ['-c', GUARD, 'sh', BINARY, ...args.map(String)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  guard.stdin.on('error', () => undefined);
  const url = `redis://127.0.0.1:${port}`;
  await answers(url);
  const stop = async () => void guard.stdin.end();
  return { url, port, stop };
}

/** Starts a cluster of three masters without replicas. */
export async function startCluster() {
  const nodes = await Promise.all(Array.from({ length: MASTERS }, startMember));
  const admins = await Promise.all(nodes.map(({ url }) => connect(url)));
  const share = Math.ceil(SLOTS / MASTERS);
  await Promise.all(
    admins.map((admin, i) => {
      const last = Math.min(SLOTS, (i + 1) * share) - 1;
      return admin.cluster('ADDSLOTSRANGE', i * share, last);
    }),
  );
  for (const { port } of nodes.slice(1)) await admins[0].cluster('MEET', '127.0.0.1', port);
  for (const admin of admins) {
    while (!/cluster_state:ok[^]*cluster_known_nodes:3/.test(await admin.cluster('INFO'))) await sleep(20);
  }
  const stop = async () => {
    for (const admin of admins) admin.disconnect();
    await Promise.all(nodes.map((node) => node.stop()));
  };
  return { nodes: nodes.map(({ port }) => ({ host: '127.0.0.1', port })), admins, stop };
}

function startMember(_, i) {
  const file = join(tmpdir(), `bench-${process.pid}-${i}-nodes.conf`);
  rmSync(file, { force: true });
  return startRedis(['--cluster-enabled', 'yes', '--cluster-config-file', file]);
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function answers(url) {
  const client = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: 200 });
  client.on('error', () => undefined);
  try {
    await client.ping();
  } catch (cause) {
    throw new Error(`${BINARY} does not reply.`, { cause });
  } finally {
    client.disconnect();
  }
}
