import type { RedisOptions } from 'ioredis';
import { maskPassword } from '../redis/check-address.js';
import type { RedisClusterOptions } from '../redis/redis-client.js';
import { usageError } from './exit-codes.js';

/** The options that say where Redis is, as they were given. */
export interface RedisArguments {
  readonly redis?: string | undefined;
  readonly cluster?: string | undefined;
  readonly sentinel?: string | undefined;
  readonly master?: string | undefined;
  readonly db?: number | undefined;
  readonly tls?: boolean | undefined;
}

/** Where Redis is. */
export interface RedisTarget {
  readonly redis: string | RedisOptions | RedisClusterOptions;
  readonly kind: 'redis' | 'cluster' | 'sentinel';
  /** How messages name it. Without passwords. */
  readonly shown: string;
  /** The passwords, which no message may contain. */
  readonly secrets: readonly string[];
}

interface Credentials {
  readonly username?: string;
  readonly password?: string;
}

/** What a connection to each server takes, besides its address. */
interface ServerOptions extends Credentials {
  readonly tls?: object;
  readonly db?: number;
}

const DEFAULT_URL = 'redis://127.0.0.1:6379';
const ADDRESS = /^(?:\[([^\]]+)\]|([^:[\]@/\s]+))(?::(\d{1,5}))?$/;

/**
 * Reads where Redis is.
 *
 * @throws CliError if the options contradict each other, or if an address is none.
 */
export function redisTarget(given: RedisArguments, env: NodeJS.ProcessEnv): RedisTarget {
  const kinds = (['redis', 'cluster', 'sentinel'] as const).filter((kind) => given[kind] !== undefined);
  if (kinds.length > 1) {
    throw usageError(`--${kinds.join(' and --')} were given. Allowed is one of --redis, --cluster and --sentinel.`);
  }
  if (given.master !== undefined && given.sentinel === undefined) {
    throw usageError('--master was given without --sentinel. Allowed is --sentinel host:port,host:port --master name.');
  }
  const options: ServerOptions = {
    ...credentialsIn(env.REDIS_USERNAME, env.REDIS_PASSWORD),
    ...(given.tls === true && { tls: {} }),
    ...(given.db !== undefined && { db: given.db }),
  };
  if (given.cluster !== undefined) return clusterTarget(given.cluster, options);
  if (given.sentinel !== undefined) return sentinelTarget(given.sentinel, given.master, env, options);
  const text = given.redis ?? (env.REDIS_URL || DEFAULT_URL);
  return text.startsWith('/') ? socketTarget(text, options) : urlTarget(text, options);
}

/** Returns the text without the passwords. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  const masked = text.replace(/([a-z][a-z\d+.-]*:\/\/)\S*@/gi, '$1***@');
  // A very short password would make the message unreadable. Nothing that this program calls repeats passwords.
  return secrets.reduce((safe, secret) => (secret.length < 3 ? safe : safe.replaceAll(secret, '***')), masked);
}

function socketTarget(path: string, options: ServerOptions): RedisTarget {
  return { redis: { path, ...options } as RedisOptions, kind: 'redis', shown: path, secrets: secretsOf(options) };
}

function urlTarget(text: string, { username, password, tls, db }: ServerOptions): RedisTarget {
  const withScheme = text.includes('://') ? text : `redis://${text}`;
  const url = URL.canParse(withScheme) ? new URL(withScheme) : undefined;
  if (url === undefined || !['redis:', 'rediss:'].includes(url.protocol)) {
    const allowed = 'a URL like redis://user:password@host:6379/0, with special characters percent-encoded';
    throw usageError(`The URL of Redis is "${maskPassword(text)}". Allowed is ${allowed}.`);
  }
  if (url.username === '' && url.password === '') {
    url.username = encodeURIComponent(username ?? '');
    url.password = encodeURIComponent(password ?? '');
  }
  if (tls !== undefined) url.protocol = 'rediss:';
  if (db !== undefined) url.pathname = `/${db}`;
  const secrets = [url.password, decoded(url.password), url.searchParams.get('password') ?? ''].filter(Boolean);
  return { redis: url.href, kind: 'redis', shown: maskPassword(url.href), secrets };
}

function clusterTarget(list: string, redisOptions: ServerOptions): RedisTarget {
  if (redisOptions.db !== undefined)
    throw usageError('--db was given with --cluster. A cluster has one database only.');
  const nodes = addressesIn('--cluster', list, 6379);
  const redis = { nodes, redisOptions } as RedisClusterOptions;
  return { redis, kind: 'cluster', shown: `the cluster ${format(nodes)}`, secrets: secretsOf(redisOptions) };
}

function sentinelTarget(
  list: string,
  master: string | undefined,
  env: NodeJS.ProcessEnv,
  options: ServerOptions,
): RedisTarget {
  if (master === undefined || master === '') {
    throw usageError('--sentinel was given without --master. Allowed is the name of the master at its Sentinels.');
  }
  const sentinels = addressesIn('--sentinel', list, 26_379);
  const sentinel = credentialsIn(env.REDIS_SENTINEL_USERNAME, env.REDIS_SENTINEL_PASSWORD);
  const redis = { sentinels, name: master, ...options } as RedisOptions;
  if (sentinel.username !== undefined) redis.sentinelUsername = sentinel.username;
  if (sentinel.password !== undefined) redis.sentinelPassword = sentinel.password;
  if (options.tls !== undefined) redis.enableTLSForSentinelMode = true;
  const shown = `the master ${master} at the Sentinels ${format(sentinels)}`;
  return { redis, kind: 'sentinel', shown, secrets: [...secretsOf(options), ...secretsOf(sentinel)] };
}

function addressesIn(option: string, list: string, defaultPort: number): { host: string; port: number }[] {
  return list.split(',').map((text) => {
    const [, ipv6, name, port = String(defaultPort)] = ADDRESS.exec(text.trim()) ?? [];
    const host = ipv6 ?? name;
    if (host !== undefined && Number(port) <= 65_535) return { host, port: Number(port) };
    const allowed = 'addresses like host:port,host:port. A password comes from REDIS_PASSWORD';
    // A password with a comma would be in two of the addresses.
    throw usageError(`${option} is "${maskPassword(list)}". Allowed are ${allowed}.`);
  });
}

function format(addresses: readonly { host: string; port: number }[]): string {
  return addresses.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',');
}

function credentialsIn(username: string | undefined, password: string | undefined): Credentials {
  // An empty variable counts as unset.
  return { ...(username && { username }), ...(password && { password }) };
}

function secretsOf({ password }: Credentials): string[] {
  return password === undefined ? [] : [password];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
