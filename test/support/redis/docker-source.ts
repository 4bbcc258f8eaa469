import { DockerEngine } from './docker-engine.ts';
import { remoteServer } from './remote-server.ts';
import { serverInfo } from './server-info.ts';
import type { RedisCandidate, RedisServer, StartOptions } from './types.ts';

const REDIS_PORT = 6_379;

async function startContainer(image: string, options: StartOptions = {}): Promise<RedisServer> {
  // Loaded here only: it is slow to load, and of no use where no engine runs.
  const { RedisContainer } = await import('@testcontainers/redis');
  // Its port is reached from outside of the container, which a server without a password refuses in protected mode.
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
