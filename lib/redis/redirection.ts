import { messageOf } from '../common/errors.js';
import { SLOTS } from './slots.js';
import { causeOf } from './redis-errors.js';

/** Why a node of a cluster has not served a request. */
export interface Redirection {
  /**
   * `moved`: another node has the slot. `ask`: another node has the keys already. `again`: the keys are on two nodes.
   * `lost`: the connection has ended, perhaps because the node has left.
   */
  readonly kind: 'moved' | 'ask' | 'again' | 'lost';
  /** `host:port` of the other node. The host is empty if it is that of the node that replied. */
  readonly address: string | undefined;
}

/** Maps the address that a node announces to the one at which it is reached. Others stay as they are. */
export type NatMap =
  | { readonly [address: string]: { readonly host: string; readonly port: number } | undefined }
  | ((address: string) => { readonly host: string; readonly port: number } | null | undefined);

const KINDS: Readonly<Record<string, Redirection['kind']>> = {
  MOVED: 'moved',
  ASK: 'ask',
  TRYAGAIN: 'again',
  'Connection is closed': 'lost',
};

/** For each slot `host:port` of its master, then of its replicas. */
export type SlotTable = readonly (readonly string[] | undefined)[];

/** Returns the redirection that an error of a cluster node contains, or undefined for every other error. */
export function redirectionIn(error: unknown): Redirection | undefined {
  const found = /^(MOVED|ASK|TRYAGAIN|Connection is closed)\b(?: \d+ (\S*:\d+))?/.exec(messageOf(causeOf(error)));
  return found === null ? undefined : { kind: KINDS[found[1]], address: found[2] };
}

/** Returns the address at which a node is reached that `sender` names so. */
export function reachedAt(named: string, sender: string, natMap: NatMap | undefined): string {
  const address = named.startsWith(':') ? hostAndPort(sender).host + named : named;
  const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
  return mapped ? `${mapped.host}:${mapped.port}` : address;
}

/** Returns the parts of an address `host:port`. An IPv6 address has no brackets. */
export function hostAndPort(address: string): { readonly host: string; readonly port: number } {
  const at = address.lastIndexOf(':');
  return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
}

/**
 * Returns the addresses of each slot's master and replicas, from the reply to CLUSTER SLOTS.
 *
 * @param sender the address of the node that replied. A node that does not know its own host names an empty one.
 */
export function addressesBySlot(reply: unknown, sender: string, natMap: NatMap | undefined): SlotTable {
  const slots = Array.from<readonly string[] | undefined>({ length: SLOTS });
  for (const [first, last, ...nodes] of reply as [number, number, ...[string | null, number][]][]) {
    const named = nodes.map(([host, port]) => `${host === '?' ? '' : (host ?? '')}:${port}`);
    const addresses = named.map((address) => reachedAt(address, sender, natMap));
    if (addresses.length > 0) slots.fill(addresses, first, last + 1);
  }
  if (slots.every((addresses) => addresses === undefined)) throw new Error('the node knows no slots');
  return slots;
}
