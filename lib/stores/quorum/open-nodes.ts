import type { RedisOptions } from 'ioredis';
import { isNodeRedis } from '../../common/check-options.js';
import { LockConfigError } from '../../common/errors.js';
import { isCluster, type ServerClient, type ServerTarget } from '../../redis/client-port.js';
import { FenceKeys } from '../../redis/slots.js';
import type { RedisClient } from '../../redis/redis-client.js';
import type { StoreContext } from '../store-context.js';
import { QuorumNode } from './quorum-node.js';

/** The address of a node: a URL, options of ioredis, or a client. A client is never closed by the store. */
export type QuorumNodeAddress = string | RedisOptions | RedisClient;

/**
 * Opens a connection to every node.
 *
 * @throws LockConfigError if the number of nodes is even or below 3, if an address is invalid, or if two are the same
 * server.
 */
export function openNodes(given: readonly QuorumNodeAddress[], context: StoreContext, nodeTimeoutMs: number) {
  if (!Array.isArray(given)) throw refused('nodes must be an array of URLs, ioredis options or clients');
  const { length } = given;
  if (length < 3 || length % 2 === 0) throw refused(`there are ${length} nodes; expected an odd number from 3 up`);
  for (const [i, address] of given.entries()) {
    if (isNodeRedis(address)) throw refused(`node ${i + 1} is a node-redis client; use fromNodeRedis(client)`);
    if (!isAddress(address))
      throw refused(`node ${i + 1} is neither a URL, ioredis options nor a client of one server`);
  }
  const fences = new FenceKeys(context.prefix);
  const nodes = given.map((address, i) => {
    const client = context.open(address) as ServerClient;
    return new QuorumNode(nameOf(client) ?? `node ${i + 1}`, client, context, nodeTimeoutMs, fences);
  });
  for (const [i, { name, client }] of nodes.entries()) {
    const first = nodes.findIndex((other) => other.client === client || other.name === name);
    if (first !== i) throw refused(`nodes ${first + 1} and ${i + 1} are the same, ${name}: one server has one vote`);
  }
  return nodes;
}

function isAddress(address: unknown): boolean {
  if (typeof address === 'string') return /^(rediss?|unix):\/\/|^\//.test(address);
  return typeof address === 'object' && address !== null && !isCluster(address) && !('nodes' in address);
}

/** Returns the address that a client connects to. Two databases of one server are the same node. */
function nameOf({ target }: ServerClient): string | undefined {
  if (target.sentinels) return `${target.name} of ${target.sentinels.map(addressOf).toSorted().join(', ')}`;
  if (target.path) return target.path;
  return target.host === undefined ? undefined : addressOf(target);
}

function addressOf({ host = 'localhost', port = 6379 }: ServerTarget): string {
  return `${host.toLowerCase()}:${port}`;
}

function refused(why: string): LockConfigError {
  return new LockConfigError(`quorum(): ${why}.`);
}
