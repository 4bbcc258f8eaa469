// A private Redis on a free port, without persistence. It ends with this process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { Redis } from './library.mjs';

// Processes that this one forks have it from their environment.
if (!process.env.REDIS_SERVER_BIN) await (await import('../../test/support/find-redis.mjs')).findRedis();

const BINARY = process.env.REDIS_SERVER_BIN;

// The shell reads a pipe of this process. It ends the server when the pipe closes, even after a kill -9.
const GUARD = '"$@" & server=$!; cat >/dev/null; kill -9 $server';

/** @returns {Promise<{ url: string, stop: () => void }>} */
export async function startRedis() {
  const port = String(await freePort());
  const args = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const guard = spawn('sh', ['-c', GUARD, 'sh', BINARY, ...args], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  guard.stdin.on('error', () => undefined);
  const url = `redis://127.0.0.1:${port}`;
  await answers(url);
  return { url, stop: () => guard.stdin.end() };
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
