import { remoteServer } from './remote-server.ts';
import { serverInfo } from './server-info.ts';
import type { RedisCandidate } from './types.ts';

/** The server that the user names. Tests use their own key prefixes and never flush it. */
export function urlCandidate(env: NodeJS.ProcessEnv): RedisCandidate | undefined {
  const url = env.REDIS_URL;
  if (!url) return undefined;
  return {
    name: 'REDIS_URL',
    explicit: true,
    async find() {
      const { version } = await serverInfo(url);
      const { host } = new URL(url);
      const description = `Redis ${version} at ${host} (REDIS_URL)`;
      return {
        description,
        start: async () => remoteServer({ url, version, description }, async () => undefined),
      };
    },
  };
}
