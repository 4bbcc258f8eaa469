import { DockerEngine } from './docker-engine.ts';
import { remoteServer } from './remote-server.ts';
import { serverInfo } from './server-info.ts';
import type { RedisCandidate, RedisServer, StartOptions } from './types.ts';

const REDIS_PORT = 6_379;

async function startContainer(image: string, options: StartOptions = {}): Promise<RedisServer> {
  // Loaded lazily: it is slow to load and useless without an engine.
  const { RedisContainer } = await import('@testcontainers/redis');
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
