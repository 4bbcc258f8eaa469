import type { RedisOptions } from 'ioredis';
import type { Clock } from '../../core/time/clock.js';
import { checkOptions, isNodeRedis, milliseconds } from '../../core/checks/check-options.js';
import { LockConfigError, messageOf } from '../../core/errors.js';
import { secondsOf } from '../../core/format-value.js';
import type { StoreListener } from '../../core/store/lock-store.js';
import { Refusals, type StoreOperation } from '../../core/store/refusals.js';
import type { RedisClient } from '../../redis/redis-client.js';
import { FenceKeys } from '../../redis/fence-keys.js';
import { isCluster, type ServerClient, type ServerTarget } from '../../redis/client-port.js';
import type { StoreContext } from '../store-context.js';
import { noMajority } from './quorum-errors.js';
import { type NodeListener, type NodeTimeouts, QuorumNode } from './quorum-node.js';

/** The address of a node: a URL, options of ioredis, or a client. A client is never closed by the store. */
export type QuorumNodeAddress = string | RedisOptions | RedisClient;

/** What a quorum store, its acquires and its extends use. */
export interface QuorumDeps extends NodeTimeouts {
  readonly nodes: readonly QuorumNode[];
  readonly clock: Clock;
}

const NODE_TIMEOUT_MS = 200;

/** Returns the timeout of one node, in milliseconds. @throws LockConfigError if it is out of range. */
export function nodeTimeoutOf(given: number | undefined, requestTimeoutMs: number): number {
  // An acquire takes two requests if the token has to be written back.
  const most = requestTimeoutMs / 2;
  checkOptions('quorum()', { nodeTimeoutMs: given }, { nodeTimeoutMs: milliseconds(1, most) });
  return given ?? Math.min(NODE_TIMEOUT_MS, most);
}

/**
 * Opens a connection to every node.
 *
 * @throws LockConfigError if the number of nodes is even or below 3, if an address is invalid, or if two are the same
 * server.
 */
export function openNodes(
  given: readonly QuorumNodeAddress[],
  context: StoreContext,
  nodeTimeoutMs: number,
): readonly QuorumNode[] {
  const { clock, requestTimeoutMs } = context;
  const fences = new FenceKeys(context.prefix);
  if (!Array.isArray(given)) throw refused('nodes must be an array of URLs, ioredis options or clients');
  const { length } = given;
  const why = 'a majority has to survive the loss of a node, and an even number survives no more losses than one less';
  if (length < 3 || length % 2 === 0)
    throw refused(`there are ${length} nodes; expected an odd number from 3 up: ${why}`);
  for (const [i, address] of given.entries()) {
    if (isNodeRedis(address)) throw refused(`node ${i + 1} is a node-redis client; use fromNodeRedis(client)`);
    if (!isAddress(address))
      throw refused(`node ${i + 1} is neither a URL, ioredis options nor a client of one server`);
  }
  const clients = given.map((address) => context.open(address) as ServerClient);
  const nodes = clients.map((client, i) => {
    const name = nameOf(client) ?? `node ${i + 1}`;
    return new QuorumNode(name, client, clock, { requestTimeoutMs, nodeTimeoutMs }, fences);
  });
  for (const [i, { name, client }] of nodes.entries()) {
    const first = nodes.findIndex((other) => other.client === client || other.name === name);
    if (first !== i) throw refused(`nodes ${first + 1} and ${i + 1} are the same, ${name}: one server has one vote`);
  }
  return nodes;
}

/** Returns the latest known server time at the local moment `at`, in µs. 0 if no clock is known. */
export function latestMicros(nodes: readonly QuorumNode[], at: number): number {
  return Math.max(...nodes.map((node) => node.microsAt(at) ?? 0));
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

const LOOPBACK = ['localhost', '::1', '0.0.0.0', '::', ''];

function addressOf({ host = 'localhost', port = 6379 }: ServerTarget): string {
  const name = host.toLowerCase();
  return `${LOOPBACK.includes(name) ? '127.0.0.1' : name}:${port}`;
}

function refused(why: string): LockConfigError {
  return new LockConfigError(`quorum(): ${why}.`);
}

type QuorumListener = Pick<
  StoreListener,
  'onDegraded' | 'onRecovered' | 'onReconnected' | 'onUnreachable' | 'onReachable'
>;

/**
 * Reports to the engine when a majority is lost and when it is back, and a node that is lost or back meanwhile by one
 * line.
 */
export class QuorumHealth implements NodeListener {
  /** When each unreachable node was reported, by its name. */
  private readonly reportedAt = new Map<string, number>();
  private readonly refusals: Refusals;
  private wasReachable = true;

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Pick<Clock, 'now'>,
    private readonly listener: QuorumListener,
  ) {
    this.refusals = new Refusals(
      (message) => listener.onDegraded(message),
      () => clock.now(),
    );
  }

  onDown(): void {
    const outages = this.nodes.map(({ outage }) => outage);
    const down = outages.filter((outage) => outage !== undefined);
    if (down.length * 2 < this.nodes.length) return this.reportMinority();
    this.wasReachable = false;
    const outcomes = this.nodes.map(({ known, outage }) => outage ?? (known ? 'answered' : undefined));
    this.listener.onUnreachable(noMajority('No majority of the nodes can be reached', this.nodes, outcomes));
  }

  onUp(node: QuorumNode): void {
    this.endOutage(node);
    const down = this.nodes.filter(({ outage }) => outage !== undefined);
    if (down.length * 2 > this.nodes.length) return;
    if (!this.wasReachable) this.listener.onReachable();
    this.wasReachable = true;
    this.reportMinority();
  }

  onReconnected(): void {
    this.listener.onReconnected();
  }

  onFailed(node: QuorumNode, operation: StoreOperation, key: string, error: unknown): void {
    this.refusals.onFailed(operation, key, error, node.name);
  }

  private endOutage({ name }: QuorumNode): void {
    const since = this.reportedAt.get(name);
    if (since === undefined) return;
    this.reportedAt.delete(name);
    this.listener.onRecovered?.(`${name} can be reached again after ${secondsOf(this.clock.now() - since)}.`);
  }

  /** Reports each unreachable node once per outage, but not before a majority is known to be reachable. */
  private reportMinority(): void {
    const serving = this.nodes.filter(({ known, outage }) => known && outage === undefined).length;
    if (serving * 2 < this.nodes.length) return;
    for (const { name, outage } of this.nodes) {
      if (outage === undefined || this.reportedAt.has(name)) continue;
      this.reportedAt.set(name, this.clock.now());
      const others = `${serving} of ${this.nodes.length} nodes`;
      this.listener.onDegraded(`${name} cannot be reached, locks continue with ${others}: ${messageOf(outage)}`);
    }
  }
}
