import { messageOf } from '../core/errors.js';
import type { NatMap } from './client-port.js';
import { causeOf } from './redis-errors.js';

/** The reply of a cluster node that sends a request elsewhere. */
export interface Redirection {
  /** `again`: to the same node, a little later. `lost`: the connection has ended, perhaps because the node has left. */
  readonly kind: 'moved' | 'ask' | 'again' | 'lost';
  /** Empty if it is the host of the node that replied. */
  readonly host: string;
  readonly port: string;
}

const KINDS: Record<string, Redirection['kind']> = {
  MOVED: 'moved',
  ASK: 'ask',
  TRYAGAIN: 'again',
  'Connection is closed': 'lost',
};

/** Returns the redirection that an error of a cluster node contains, or undefined for every other error. */
export function redirectionIn(error: unknown): Redirection | undefined {
  // The last colon stands before the port, because IPv6 addresses come without brackets.
  const found = /^(MOVED|ASK|TRYAGAIN|Connection is closed)\b(?: \d+ (\S*):(\d+))?/.exec(messageOf(causeOf(error)));
  if (found === null) return undefined;
  const [, kind, host = '', port = ''] = found;
  return { kind: KINDS[kind], host, port };
}

/**
 * Returns the address `host:port` of the node that a redirection names, translated by `natMap`.
 *
 * @param sender the address of the node that replied.
 */
export function targetAddress(
  { host, port }: Redirection,
  sender: string | undefined,
  natMap: NatMap | undefined,
): string {
  const address = `${host || hostAndPort(sender ?? '').host}:${port}`;
  const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
  return mapped ? `${mapped.host}:${mapped.port}` : address;
}

/** Returns the parts of an address `host:port`. An IPv6 address has no brackets. */
export function hostAndPort(address: string): { readonly host: string; readonly port: number } {
  const at = address.lastIndexOf(':');
  return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
}
