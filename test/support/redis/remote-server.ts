import type { RedisServer } from './types.ts';

/** A server that is not a child process: it can be used but not killed. */
export function remoteServer(
  details: Pick<RedisServer, 'url' | 'version' | 'description'>,
  stop: () => Promise<void>,
): RedisServer {
  const refuse = (): never => {
    throw new Error(`${details.description} is not a local process: use startRedis({ local: true }) for faults`);
  };
  return {
    ...details,
    port: Number(new URL(details.url).port || 6379),
    pid: undefined,
    stop,
    kill: async () => refuse(),
    pause: refuse,
    resume: refuse,
    restart: async () => refuse(),
  };
}
