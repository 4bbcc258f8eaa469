// A private Redis on a free port, without persistence. It ends with this process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { connect, Redis } from './library.mjs';
import { tellServerTime } from './profile.mjs';

const BINARY = process.env.REDIS_SERVER_BIN ?? 'redis-server';

// The shell reads a pipe of this process. It ends the server when the pipe closes, even after a kill -9.
// A thousand module instances have two thousand connections.
const GUARD = 'ulimit -n 10100; "$@" & server=$!; cat >/dev/null; kill -9 $server';

/** @returns {Promise<{ url: string, stop: () => Promise<void> }>} */
export async function startRedis() {
  const port = await freePort();
  const args = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--maxclients', '10000'];
  const guard = spawn('sh', ['-c', GUARD, 'sh', BINARY, ...args.map(String)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  guard.stdin.on('error', () => undefined);
  const url = `redis://127.0.0.1:${port}`;
  await answers(url);
  const stop = async () => {
    const client = await connect(url);
    await tellServerTime(client);
    client.disconnect();
    guard.stdin.end();
  };
  return { url, stop };
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
