import type { RedisOptions } from 'ioredis';
import type { Clock } from '../../core/time/clock.js';
import { checkOptions, milliseconds } from '../../core/check-options.js';
import { LockConfigError } from '../../core/errors.js';
import type { RedisClient } from '../../redis/redis-client.js';
import { isCluster } from '../../redis/cluster/cluster-client.js';
import type { StoreContext } from '../store-context.js';
import { type NodeTimeouts, QuorumNode } from './quorum-node.js';

/** Where a node is: a URL, options of ioredis, or a client, which is never closed. */
export type QuorumNodeAddress = string | RedisOptions | RedisClient;

/** What the parts of a quorum store share. */
export interface QuorumDeps extends NodeTimeouts {
  readonly nodes: readonly QuorumNode[];
  readonly clock: Clock;
}

const NODE_TIMEOUT_MS = 200;

/** @throws LockConfigError for a timeout that cannot work. */
export function nodeTimeoutOf(given: number | undefined, requestTimeoutMs: number): number {
  // A lock takes two requests where the nodes have to be told of the token.
  const most = requestTimeoutMs / 2;
  const { allowed, fits } = milliseconds(1, most);
  const rule = { allowed: `${allowed}, half of requestTimeoutMs`, fits };
  checkOptions('quorum()', { nodeTimeoutMs: given }, { nodeTimeoutMs: rule });
  return given ?? Math.min(NODE_TIMEOUT_MS, most);
}

/** @throws LockConfigError for a number of nodes that makes no quorum, and for nodes that are not several. */
export function openNodes(
  given: readonly QuorumNodeAddress[],
  context: StoreContext,
  nodeTimeoutMs: number,
): readonly QuorumNode[] {
  const { clock, requestTimeoutMs } = context;
  if (!Array.isArray(given)) throw refused('nodes have to be an array of URLs, options of ioredis or clients');
  const { length } = given;
  const why = 'a majority has to survive the loss of a node, and an even number survives no more losses than one less';
  if (length < 3 || length % 2 === 0)
    throw refused(`there are ${length} nodes; allowed is an odd number from 3 up: ${why}`);
  for (const [i, address] of given.entries()) {
    if (!isAddress(address))
      throw refused(`node ${i + 1} is no URL, no options of ioredis and no client (a Cluster is none)`);
  }
  const clients = given.map((address) => context.open(address).client);
  const names = clients.map((client, i) => nameOf(client) ?? `node ${i + 1}`);
  const places = names.toSorted();
  const nodes = clients.map((client, i) => {
    const name = names[i];
    return new QuorumNode(name, places.indexOf(name), client, clock, { requestTimeoutMs, nodeTimeoutMs });
  });
  for (const [i, { name, client }] of nodes.entries()) {
    const first = nodes.findIndex((other) => other.client === client || other.name === name);
    if (first !== i) throw refused(`nodes ${first + 1} and ${i + 1} are the same, ${name}: one server has one vote`);
  }
  return nodes;
}

/** The latest of all clocks that are known, at a local moment, in µs; 0 if none is. */
export function latestMicros(nodes: readonly QuorumNode[], at: number): number {
  return Math.max(...nodes.map((node) => node.microsAt(at) ?? 0));
}

function isAddress(address: unknown): boolean {
  if (typeof address === 'string') return /^(rediss?|unix):\/\/|^\//.test(address);
  return typeof address === 'object' && address !== null && !isCluster(address) && !('nodes' in address);
}

interface Address {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string | null;
  readonly sentinels?: readonly Address[] | null;
  readonly name?: string | null;
}

/** Where a client of ioredis leads. A database is no node of its own. */
function nameOf(client: RedisClient): string | undefined {
  const { options } = client as { readonly options?: Address };
  if (options === undefined) return undefined;
  if (options.sentinels) return `${options.name} of ${options.sentinels.map(addressOf).toSorted().join(', ')}`;
  return options.path ?? addressOf(options);
}

const LOOPBACK = ['localhost', '::1', '0.0.0.0', '::', ''];

function addressOf({ host = 'localhost', port = 6379 }: Address): string {
  const name = host.toLowerCase();
  return `${LOOPBACK.includes(name) ? '127.0.0.1' : name}:${port}`;
}

function refused(why: string): LockConfigError {
  return new LockConfigError(`quorum(): ${why}.`);
}
