import type { RedisOptions } from 'ioredis';
import { maskPassword } from '../redis/check-address.js';
import type { RedisClusterOptions } from '../redis/redis-client.js';
import { type CliError, usageError } from './exit-codes.js';

/** The options that say where Redis is, as they were given. */
export interface RedisArguments {
  /** A URL, or the path of a socket. */
  readonly redis?: string | undefined;
  /** The `keyPrefix` of the application's client. */
  readonly keyPrefix?: string | undefined;
}

/** Where Redis is. */
export interface RedisTarget {
  readonly redis: string | RedisOptions | RedisClusterOptions;
  readonly kind: 'redis' | 'cluster' | 'sentinel';
  readonly tls: boolean;
  /** How messages name it. Without passwords. */
  readonly shown: string;
  /** The passwords, which no message may contain. */
  readonly secrets: readonly string[];
}

interface Credentials {
  readonly username?: string;
  readonly password?: string;
}

/** What a client takes besides the address of its server. */
interface ServerOptions extends Credentials {
  readonly keyPrefix?: string;
}

/** The parts of a URL with several servers. */
interface SeveralServers {
  readonly kind: 'cluster' | 'sentinel';
  readonly tls: boolean;
  /** `user:password`, percent-encoded. */
  readonly userInfo: string;
  /** `host:port,host:port`. */
  readonly hosts: string;
  /** For a Sentinel: `master` or `master/db`. */
  readonly path: string;
}

const DEFAULT_URL = 'redis://127.0.0.1:6379';
const REDIS_PORT = 6379;
const SENTINEL_PORT = 26_379;

const SOCKET = /^(\/[^?]*)(?:\?db=(\d+))?$/;
const SEVERAL_SERVERS = /^redis(s?)[-+](cluster|sentinel):\/\/(?:([^@/]*)@)?([^@/?#]+)(?:\/([^?#@]*))?$/i;
const ADDRESS = /^(?:\[([^\]]+)\]|([^:[\]@/\s]+))(?::(\d{1,5}))?$/;
const MASTER = /^([^/]+)(?:\/(\d+))?$/;

/** ioredis would connect to addresses in place of names. A certificate is for a name. */
const keepName: NonNullable<RedisClusterOptions['dnsLookup']> = (name, callback) => callback(null, name);

/**
 * Reads where Redis is: from the argument, the variable `REDIS_URL`, or the default.
 *
 * @throws CliError if the URL is invalid.
 */
export function redisTarget({ redis, keyPrefix }: RedisArguments, env: NodeJS.ProcessEnv): RedisTarget {
  const text = redis ?? (env.REDIS_URL || DEFAULT_URL);
  const options = {
    ...credentialsOf(env.REDIS_USERNAME, env.REDIS_PASSWORD),
    ...(keyPrefix !== undefined && { keyPrefix }),
  };
  if (text.startsWith('/')) return socketTarget(text, options);
  const several = severalServersIn(text);
  if (several === undefined) return urlTarget(text, options);
  const own = credentialsIn(several.userInfo, text);
  // A user from the environment does not belong to a password in the URL.
  const all = own === undefined ? options : { ...options, username: undefined, ...own };
  return several.kind === 'cluster' ? clusterTarget(text, several, all) : sentinelTarget(text, several, all, env);
}

/** Returns the text without the passwords. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  const masked = text.replace(/([a-z][a-z\d+.-]*:\/\/)\S*@/gi, '$1***@');
  // A very short password would make the message unreadable. Nothing that this program calls repeats passwords.
  return secrets.reduce((safe, secret) => (secret.length < 3 ? safe : safe.replaceAll(secret, '***')), masked);
}

function socketTarget(text: string, options: ServerOptions): RedisTarget {
  const [, path, db] = SOCKET.exec(text) ?? [];
  if (path === undefined) throw urlError(text);
  const redis: RedisOptions = { path, ...options, ...(db !== undefined && { db: Number(db) }) };
  return { redis, kind: 'redis', tls: false, shown: path, secrets: secretsOf(options) };
}

function urlTarget(text: string, { username, password, keyPrefix }: ServerOptions): RedisTarget {
  const url = urlIn(text);
  if (url === undefined) throw urlError(text);
  if (url.password === '') {
    if (url.username === '') url.username = encodeURIComponent(username ?? '');
    url.password = encodeURIComponent(password ?? '');
  }
  const secrets = [url.password, decoded(url.password), url.searchParams.get('password') ?? ''].filter(Boolean);
  const shown = maskPassword(url.href);
  if (keyPrefix !== undefined) url.searchParams.set('keyPrefix', keyPrefix);
  return { redis: url.href, kind: 'redis', tls: url.protocol === 'rediss:', shown, secrets };
}

/** Returns the URL of one server. Undefined for any other text. */
function urlIn(text: string): URL | undefined {
  const withScheme = text.includes('://') ? text : `redis://${text}`;
  if (!URL.canParse(withScheme)) return undefined;
  const url = new URL(withScheme);
  // ioredis would take any other path for a database number. Without a host, it would connect to this machine.
  const isUsable = /^rediss?:$/.test(url.protocol) && url.hostname !== '' && /^(?:\/\d*)?$/.test(url.pathname);
  return isUsable ? url : undefined;
}

function clusterTarget(
  text: string,
  { tls, hosts, path }: SeveralServers,
  { keyPrefix, ...credentials }: ServerOptions,
): RedisTarget {
  if (path !== '') throw urlError(text);
  const nodes = addressesIn(hosts, REDIS_PORT, text);
  const redis: RedisClusterOptions = {
    nodes,
    redisOptions: { ...credentials, ...(tls && { tls: {} }) },
    ...(keyPrefix !== undefined && { keyPrefix }),
    ...(tls && { dnsLookup: keepName }),
  };
  const shown = `redis${tls ? 's' : ''}-cluster://${format(nodes)}`;
  return { redis, kind: 'cluster', tls, shown, secrets: secretsOf(credentials) };
}

function sentinelTarget(
  text: string,
  { tls, hosts, path }: SeveralServers,
  options: ServerOptions,
  env: NodeJS.ProcessEnv,
): RedisTarget {
  const [, name, db] = MASTER.exec(path) ?? [];
  if (name === undefined) throw urlError(text);
  const sentinels = addressesIn(hosts, SENTINEL_PORT, text);
  const { username, password } = credentialsOf(env.REDIS_SENTINEL_USERNAME, env.REDIS_SENTINEL_PASSWORD);
  const redis: RedisOptions = {
    sentinels,
    name: decoded(name),
    ...options,
    ...(db !== undefined && { db: Number(db) }),
    ...(username !== undefined && { sentinelUsername: username }),
    ...(password !== undefined && { sentinelPassword: password }),
    ...(tls && { tls: {}, enableTLSForSentinelMode: true, sentinelTLS: {} }),
  };
  const shown = `redis${tls ? 's' : ''}-sentinel://${format(sentinels)}/${path}`;
  return { redis, kind: 'sentinel', tls, shown, secrets: [...secretsOf(options), ...(password ? [password] : [])] };
}

/** Returns the parts of a URL of a cluster or of Sentinels. Undefined for any other text. */
function severalServersIn(text: string): SeveralServers | undefined {
  const [, secure, kind, userInfo = '', hosts, path = ''] = SEVERAL_SERVERS.exec(text) ?? [];
  if (hosts === undefined) return undefined;
  const isCluster = kind.toLowerCase() === 'cluster';
  return { kind: isCluster ? 'cluster' : 'sentinel', tls: secure !== '', userInfo, hosts, path };
}

function addressesIn(hosts: string, defaultPort: number, url: string): { host: string; port: number }[] {
  return hosts.split(',').map((text) => {
    const [, ipv6, name, port = String(defaultPort)] = ADDRESS.exec(text.trim()) ?? [];
    const host = ipv6 ?? name;
    if (host === undefined || Number(port) > 65_535) throw urlError(url);
    return { host, port: Number(port) };
  });
}

const ALLOWED = [
  'redis://user:password@host:6379/0',
  'rediss:// for TLS',
  'redis-cluster://host:port,host:port',
  'redis-sentinel://host:port,host:port/master',
].join(', ');

function urlError(text: string): CliError {
  return usageError(
    `The URL of Redis is "${maskPassword(text)}".`,
    `Expected ${ALLOWED}, or the path of a socket. Special characters must be percent-encoded.`,
  );
}

function format(addresses: readonly { host: string; port: number }[]): string {
  return addresses.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',');
}

/** Returns the credentials in a URL. Undefined if it has none. */
function credentialsIn(userInfo: string, url: string): Credentials | undefined {
  const [username, ...rest] = userInfo.split(':');
  // A password contains no colon, because special characters are percent-encoded.
  if (rest.length > 1) throw urlError(url);
  const [password = ''] = rest;
  return userInfo === '' ? undefined : credentialsOf(decoded(username), decoded(password));
}

function credentialsOf(username: string | undefined, password: string | undefined): Credentials {
  // An empty variable counts as unset.
  return { ...(username && { username }), ...(password && { password }) };
}

function secretsOf({ password }: Credentials): string[] {
  return password === undefined ? [] : [password, encodeURIComponent(password)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
