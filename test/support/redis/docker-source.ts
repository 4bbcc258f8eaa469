import { existsSync } from 'node:fs';
import { request } from 'node:http';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { installForFull, TEST_FOLDER } from '../install-for-full.ts';
import { remoteServer } from './remote-server.ts';
import { serverInfo } from './server-info.ts';
import type { RedisCandidate, RedisServer, StartOptions } from './types.ts';

const REDIS_PORT = 6_379;
const PING_TIMEOUT_MS = 2_000;

/** The part of a container of testcontainers that is used here. It is installed only if Docker is. */
interface Container {
  withCommand(command: string[]): Container;
  withExposedPorts(port: { container: number; host: number }): Container;
  start(): Promise<{ getConnectionUrl(): string; stop(): Promise<unknown> }>;
}
type Testcontainers = { RedisContainer: new (image: string) => Container };

type Address = { readonly socketPath: string } | { readonly host: string; readonly port: string };

function addresses(env: NodeJS.ProcessEnv): Address[] {
  const host = env.DOCKER_HOST;
  if (host?.startsWith('unix://')) return [{ socketPath: host.slice('unix://'.length) }];
  if (host) return [{ host: new URL(host).hostname, port: new URL(host).port || '2375' }];
  const sockets = ['/var/run/docker.sock', join(homedir(), '.docker/run/docker.sock')];
  if (env.XDG_RUNTIME_DIR) sockets.push(join(env.XDG_RUNTIME_DIR, 'docker.sock'));
  return sockets.filter((path) => existsSync(path)).map((socketPath) => ({ socketPath }));
}

function ping(address: Address): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(PING_TIMEOUT_MS);
    request({ ...address, path: '/_ping', signal, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

/** Rejects if no engine replies. A client without an engine or a dead socket is common. */
async function needEngine(env: NodeJS.ProcessEnv): Promise<void> {
  const reasons: string[] = [];
  for (const address of addresses(env)) {
    const where = 'host' in address ? `${address.host}:${address.port}` : address.socketPath;
    try {
      const status = await ping(address);
      if (status === 200) return;
      reasons.push(`${where} answered ${status}`);
    } catch (error) {
      reasons.push(`${where}: ${(error as Error).message}`);
    }
  }
  throw new Error(reasons.length === 0 ? 'no Docker engine' : `no Docker engine replies (${reasons.join(', ')})`);
}

async function startContainer(image: string, options: StartOptions = {}): Promise<RedisServer> {
  // Loaded lazily: it is slow to load and useless without an engine.
  await installForFull();
  const { RedisContainer } = createRequire(TEST_FOLDER)('@testcontainers/redis') as Testcontainers;
  // Connections come from outside the container, which protected mode refuses without a password.
  const open = ['--protected-mode', 'no'];
  const command = ['redis-server', '--save', '', '--appendonly', 'no', ...open, ...(options.args ?? [])];
  const container = new RedisContainer(image).withCommand(command);
  if (options.port !== undefined) container.withExposedPorts({ container: REDIS_PORT, host: options.port });
  const started = await container.start();
  const stop = async () => void (await started.stop());
  const url = started.getConnectionUrl();
  try {
    const { version } = await serverInfo(url);
    return remoteServer({ url, version, description: `Redis ${version} (Docker, ${image})` }, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

export function dockerCandidate(env: NodeJS.ProcessEnv): RedisCandidate {
  const image = env.REDIS_IMAGE ?? 'redis:7-alpine';
  return {
    name: 'Docker',
    async find() {
      await needEngine(env);
      // It pulls an image that is absent.
      return { description: `Redis (Docker, ${image})`, start: (options) => startContainer(image, options) };
    },
  };
}
