import { LockUnavailableError, messageOf } from '../core/errors.js';

/** The reply of a cluster node that sends a request elsewhere. */
export interface Redirection {
  /** `again`: to the same node, a little later. `lost`: the connection has ended, perhaps because the node has left. */
  readonly kind: 'moved' | 'ask' | 'again' | 'lost';
  /** Empty if it is the host of the node that replied. */
  readonly host: string;
  readonly port: string;
}

/** The address of a node, as seen from this instance. */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** Maps the address that a node announces to the address at which this instance reaches it. */
export type NatMap =
  | { readonly [address: string]: { readonly host: string; readonly port: number } }
  | ((address: string) => { readonly host: string; readonly port: number } | null);

const KINDS: Record<string, Redirection['kind']> = {
  MOVED: 'moved',
  ASK: 'ask',
  TRYAGAIN: 'again',
  'Connection is closed': 'lost',
};

/** Returns the redirection that an error of a cluster node contains, or undefined for every other error. */
export function redirectionIn(error: unknown): Redirection | undefined {
  const reply = error instanceof LockUnavailableError ? error.cause : error;
  // The last colon stands before the port, because IPv6 addresses come without brackets.
  const found = /^(MOVED|ASK|TRYAGAIN|Connection is closed)\b(?: \d+ (\S*):(\d+))?/.exec(messageOf(reply));
  if (found === null) return undefined;
  const [, kind, host = '', port = ''] = found;
  return { kind: KINDS[kind], host, port };
}

/**
 * Returns the address of the node that a redirection names, translated by `natMap`.
 *
 * @param senderHost the host of the node that replied.
 */
export function targetAddress(
  { host, port }: Redirection,
  senderHost: string | undefined,
  natMap: NatMap | undefined,
): NodeAddress {
  const named = { host: host || String(senderHost), port: Number(port) };
  const name = formatAddress(named);
  return (typeof natMap === 'function' ? natMap(name) : natMap?.[name]) || named;
}

/** Returns `host:port`, by which ioredis identifies nodes. */
export function formatAddress({ host, port }: NodeAddress): string {
  return `${host}:${port}`;
}
