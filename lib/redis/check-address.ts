import { LockConfigError } from '../core/errors.js';

/** Where a server, a Sentinel or a node is, as far as it is checked. */
interface Address {
  readonly host?: unknown;
  readonly port?: unknown;
  readonly path?: unknown;
}

/** Options of other clients that say where a server is. ioredis ignores them and connects to 127.0.0.1:6379. */
const FOREIGN_OPTIONS = ['url', 'uri', 'socket', 'connection', 'config'];

const ALLOWED_URL = 'a URL like redis://user:password@host:6379, with special characters percent-encoded';

/** Returns the text without the password that it may hold. */
export function maskPassword(text: string): string {
  // A password that is not encoded may contain slashes and at signs.
  return text.replace(/^([a-z][a-z+-]*:\/\/)?.*@/is, '$1***@').replace(/([?&]password=)[^&#]*/gi, '$1***');
}

/** @throws LockConfigError with a masked password if ioredis could not parse the URL. */
export function checkUrl(url: string, place = 'redis'): void {
  // ioredis treats a string that begins with a slash as the path of a socket.
  if (url.startsWith('/') || URL.canParse(url.includes('://') ? url : `redis://${url}`)) return;
  throw new LockConfigError(`${place} is "${maskPassword(url)}"; expected ${ALLOWED_URL}.`);
}

/**
 * @throws LockConfigError if the host or the port cannot be one, or if the address is in an option of another client.
 * Options with a path have neither host nor port.
 */
export function checkAddress(address: Address, place = 'redis'): void {
  const { host, port, path } = address;
  if (typeof path === 'string') return;
  if (isNone(host) && isNone(port)) refuseForeignOptions(address, place);
  if (!isNone(host) && typeof host !== 'string') {
    throw new LockConfigError(`${place}: host is ${format(host)}; expected a string.`);
  }
  if (isNone(port) || isPort(port)) return;
  throw new LockConfigError(`${place}: port is ${format(port)}; expected a whole number from 0 to 65535.`);
}

function refuseForeignOptions(given: object, place: string): void {
  const foreign = FOREIGN_OPTIONS.find((option) => !isNone((given as Record<string, unknown>)[option]));
  if (foreign === undefined) return;
  const allowed = 'host and port, or a redis:// URL in place of the object';
  throw new LockConfigError(`${place}: ioredis has no option ${foreign}; expected ${allowed}.`);
}

/** @throws LockConfigError that names the Sentinel or the group without a usable value. */
export function checkSentinels(sentinels: unknown, group: unknown): void {
  if (!Array.isArray(sentinels) || sentinels.length === 0) {
    throw new LockConfigError('redis: sentinels has no address; expected an array like [{ host, port }].');
  }
  if (typeof group !== 'string' || group === '') {
    throw new LockConfigError(`redis: name is ${format(group)}; expected the name of the master at its Sentinels.`);
  }
  for (const [i, sentinel] of sentinels.entries()) checkEntry(sentinel, `redis: sentinels[${i}]`);
}

/** @throws LockConfigError that names the first node that is not a URL, a port or an object with host and port. */
export function checkNodes(nodes: readonly unknown[]): void {
  for (const [i, node] of nodes.entries()) {
    const place = `redis: nodes[${i}]`;
    if (typeof node === 'string' && !/^\d+$/.test(node)) checkUrl(node, place);
    else if (typeof node === 'string' || typeof node === 'number') checkAddress({ port: node }, place);
    else checkEntry(node, place);
  }
}

function checkEntry(entry: unknown, place: string): void {
  if (typeof entry === 'object' && entry !== null) return checkAddress(entry, place);
  throw new LockConfigError(`${place} is ${format(entry)}; expected an object with host and port.`);
}

// Options that were read from a client contain null.
const isNone = (value: unknown): boolean => value === undefined || value === null;

function isPort(port: unknown): boolean {
  // ioredis also takes a number in a string.
  const isNumeric = typeof port === 'number' || (typeof port === 'string' && /^\d+$/.test(port));
  return isNumeric && Number.isInteger(Number(port)) && Number(port) >= 0 && Number(port) <= 65_535;
}

function format(value: unknown): string {
  if (typeof value === 'string') return `"${maskPassword(value)}"`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}
