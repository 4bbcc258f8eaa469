import { createRequire } from 'node:module';
import { installForFull, TEST_FOLDER } from '../install-for-full.ts';
import { DockerEngine } from './docker-engine.ts';
import { remoteServer } from './remote-server.ts';
import { serverInfo } from './server-info.ts';
import type { RedisCandidate, RedisServer, StartOptions } from './types.ts';

const REDIS_PORT = 6_379;

/** The part of a container of testcontainers that is used here. It is installed only if Docker is. */
interface Container {
  withCommand(command: string[]): Container;
  withExposedPorts(port: { container: number; host: number }): Container;
  start(): Promise<{ getConnectionUrl(): string; stop(): Promise<unknown> }>;
}
type Testcontainers = { RedisContainer: new (image: string) => Container };

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
      const version = await (await DockerEngine.find(env)).imageVersion(image);
      return {
        kind: 'docker',
        version,
        description: `Redis ${version} (Docker, ${image})`,
        start: (options) => startContainer(image, options),
      };
    },
  };
}
