import type { RedisCluster } from './cluster-client.js';
import type { Redirection } from '../redis-errors.js';
import type { ClusterNode } from './cluster-node.js';

/** Where a node is reached. */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** Where a node of the cluster sends a request on to, as ioredis names that node. */
export function placeOf(
  { host, port }: Redirection,
  from: ClusterNode | undefined,
  cluster: RedisCluster,
): NodeAddress {
  // Without a host it is the one that has answered.
  const place = { host: host || String(from?.client.options.host), port: Number(port) };
  const natMap = cluster.options?.natMap;
  const address = addressOf(place);
  return (typeof natMap === 'function' ? natMap(address) : natMap?.[address]) || place;
}

/** As ioredis tells nodes apart. */
export function addressOf({ host, port }: NodeAddress): string {
  return `${host}:${port}`;
}
