import type { RedisOptions } from 'ioredis';
import { withoutUndefined } from '../common/check-options.js';
import { maskPassword } from '../redis/check-address.js';
import type { RedisClusterOptions } from '../redis/redis-client.js';
import type { GivenOptions } from './arguments.js';
import { CliError, EXIT } from './cli-error.js';

/** Where Redis is. */
export interface RedisTarget {
  readonly redis: RedisOptions | RedisClusterOptions;
  /** The options for the same server as a node of a cluster. Undefined if it cannot be one. */
  readonly asCluster: RedisClusterOptions | undefined;
  /** The addresses, without passwords. */
  readonly shown: string;
}

/**
 * Reads where Redis is: from the options, the variable `REDIS_URL`, or the default. The user, the password, the
 * database and TLS are those of the first URL.
 *
 * @throws CliError without the password if a URL is invalid.
 */
export function redisTarget(given: GivenOptions, env: NodeJS.ProcessEnv): RedisTarget {
  const { url = [env.REDIS_URL || 'redis://127.0.0.1'], sentinel, 'key-prefix': keyPrefix } = given;
  const urls = url.flatMap(urlsIn);
  const [{ protocol, username, password, pathname, hostname, searchParams }] = urls;
  const tls = protocol === 'rediss:' ? {} : undefined;
  // ioredis also takes parameters as options.
  const parameters = Array.from(searchParams, ([name, value]) => [name, name === 'family' ? Number(value) : value]);
  const [user, secret, path] = [username, password, pathname].map(decodeURIComponent);
  const own = withoutUndefined({ username: user || undefined, password: secret || undefined, tls, keyPrefix });
  const options: RedisOptions = { ...Object.fromEntries(parameters), ...own };
  if (hostname === '') return { redis: { ...options, path }, asCluster: undefined, shown: path };
  const server = path.length > 1 ? { ...options, db: Number(path.slice(1)) } : options;
  const defaultPort = sentinel === undefined ? 6379 : 26_379;
  const addresses = urls.map((each) => {
    return { host: each.hostname.replace(/^\[|\]$/g, ''), port: Number(each.port || defaultPort) };
  });
  const shown = addresses.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',');
  if (sentinel !== undefined) {
    const { REDIS_SENTINEL_USERNAME: sentinelUsername, REDIS_SENTINEL_PASSWORD: sentinelPassword } = env;
    const further = { sentinelUsername, sentinelPassword, sentinelTLS: tls, enableTLSForSentinelMode: tls && true };
    const redis = { ...server, ...withoutUndefined(further), sentinels: addresses, name: sentinel };
    return { redis, asCluster: undefined, shown: `${sentinel} of the Sentinels ${shown}` };
  }
  const asCluster: RedisClusterOptions = {
    nodes: addresses,
    redisOptions: options,
    ...withoutUndefined({ keyPrefix: options.keyPrefix }),
    // ioredis would connect to addresses in place of names. A certificate is for a name.
    ...(tls && { dnsLookup: (name, callback) => callback(null, name) }),
  };
  return { redis: urls.length > 1 ? asCluster : { ...server, ...addresses[0] }, asCluster, shown };
}

/** Returns a URL for each of the hosts in `redis://user:password@host:port,host:port/0`. */
function urlsIn(text: string): URL[] {
  const [, start = '', hosts = '', end = ''] = /^((?:\w+:\/\/)?(?:[^@/]*@)?)([^/?#]*)(.*)$/.exec(text) ?? [];
  return hosts.split(',').map((host) => parseUrl(start + host + end, text));
}

/** Parses one URL. That of a socket has no host. @param whole the argument, for the error. */
function parseUrl(text: string, whole: string): URL {
  const isSocket = text.startsWith('/');
  const full = isSocket || text.includes('://') ? text : `redis://${text}`;
  const url = URL.canParse(full, 'unix://') ? new URL(full, 'unix://') : undefined;
  const isServer = url !== undefined && /^rediss?:\/\/[^/?#]+(?:\/\d*)?(?:[?#].*)?$/.test(url.href);
  // A percent sign or an at sign that is not encoded is part of a password.
  const isEncoded = !/%(?![\da-f]{2})/i.test(text) && !/[?#].*@/.test(text);
  if (url !== undefined && (isSocket || isServer) && isEncoded) return url;
  throw new CliError(
    EXIT.usage,
    `The URL of Redis is "${maskPassword(whole)}"; expected redis://host:6379/0, rediss:// for TLS, or the path of a ` +
      'socket. A user and a password are percent-encoded before the host: user:password@host.',
  );
}
