import { LockConfigError } from '../common/errors.js';

const ALLOWED_HOST =
  'the name or the address of a server; other forms are { path }, { sentinels, name }, { nodes }, or a redis:// URL';
const ALLOWED_URL = 'a URL like redis://user:password@host:6379, with special characters percent-encoded';

/** Returns the text without the password that it may hold. */
export function maskPassword(text: string): string {
  // A password that is not encoded may contain slashes and at signs.
  return text.replace(/^([a-z][a-z+-]*:\/\/)?.*@/is, '$1***@').replace(/([?&]password=)[^&#]*/gi, '$1***');
}

/**
 * Checks the address of a server, a Sentinel or a node: a URL, a port, or options with a host and a port. ioredis would
 * print the password, or fail without end.
 *
 * @param place names the address in the error.
 * @throws LockConfigError without the password if it cannot be an address.
 */
export function checkAddress(address: unknown, place = 'redis'): void {
  if (typeof address === 'string' && !/^\d+$/.test(address)) return checkUrl(address, place);
  if (address === null) throw new LockConfigError(`${place} is null; expected an object with host and port.`);
  if (typeof address !== 'object') return checkPort(address, place);
  const { host, port, path }: { readonly host?: unknown; readonly port?: unknown; readonly path?: unknown } = address;
  if (path === '') throw new LockConfigError(`${place}: path is ""; expected the path of a socket.`);
  if (typeof path === 'string') return;
  // For an option of another client, such as url, ioredis would use this machine.
  if (typeof host !== 'string' || host === '')
    throw new LockConfigError(`${place}: host is ${format(host)}; expected ${ALLOWED_HOST}.`);
  // Options that were read from a client contain null.
  checkPort(port ?? 6379, place);
}

function checkPort(port: unknown, place: string): void {
  // ioredis also takes a number in a string.
  const isNumeric = typeof port === 'number' ? Number.isInteger(port) : typeof port === 'string' && /^\d+$/.test(port);
  if (isNumeric && Number(port) >= 0 && Number(port) <= 65_535) return;
  throw new LockConfigError(`${place}: port is ${format(port)}; expected a whole number from 0 to 65535.`);
}

/** @throws LockConfigError that names the first address that cannot be one. */
export function checkAddresses(addresses: readonly unknown[], place: string): void {
  for (const [i, address] of addresses.entries()) checkAddress(address, `redis: ${place}[${i}]`);
}

function checkUrl(url: string, place: string): void {
  const query = new URLSearchParams(url.split('?').slice(1).join('?'));
  checkNumber(query.get('db'), place);
  // ioredis treats a string that begins with a slash as the path of a socket.
  if (url.startsWith('/')) return;
  const parsed = url === '' ? undefined : parse(url.includes('://') ? url : `redis://${url}`);
  if (parsed === undefined) throw new LockConfigError(`${place} is "${maskPassword(url)}"; expected ${ALLOWED_URL}.`);
  const path = parsed.pathname.replace(/^\/|\/$/g, '');
  if (/^rediss?:\/\//i.test(url) && path !== '') checkNumber(path, place);
}

/** Returns the parts of a URL. Undefined if ioredis could not use it. */
function parse(url: string): URL | undefined {
  try {
    const parsed = new URL(url);
    // ioredis decodes them. A % that begins no character fails there, with the password in the error.
    decodeURIComponent(parsed.username + parsed.password);
    return parsed;
  } catch {
    return undefined;
  }
}

/**
 * Checks the number of the database. ioredis would use database 0 in place of what it cannot read.
 *
 * @throws LockConfigError if it is not a whole number from 0 up, or if it is called as in other clients.
 */
export function checkDatabase(options: object): void {
  const { db, database }: { readonly db?: unknown; readonly database?: unknown } = options;
  if ((db ?? null) === null && (database ?? null) !== null)
    throw new LockConfigError('redis: ioredis has no option database; expected db.');
  checkNumber(db, 'redis');
}

function checkNumber(db: unknown, place: string): void {
  const isNumber = typeof db === 'number' ? Number.isSafeInteger(db) && db >= 0 : /^\d+$/.test(String(db));
  if ((db ?? null) === null || isNumber) return;
  throw new LockConfigError(`${place}: the database is ${format(db)}; expected a whole number from 0 up.`);
}

function format(value: unknown): string {
  if (typeof value === 'string') return `"${maskPassword(value)}"`;
  const isShown = value === null || value === undefined || typeof value === 'number';
  return isShown ? String(value) : `a value of type ${typeof value}`;
}
