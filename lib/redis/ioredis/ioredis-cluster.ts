import type { Cluster, ClusterNode, Redis } from 'ioredis';
import { LockConfigError } from '../../common/errors.js';
import type { ClusterClient, ClusterListener } from '../client-port.js';
import { hostAndPort, type NatMap } from '../redirection.js';
import { clusterFailure } from '../redis-errors.js';
import { formatAddress } from '../server-address.js';
import { IoredisServer, watchClient } from './ioredis-server.js';

/** The options of a Cluster that count here. */
interface Options {
  readonly keyPrefix?: string | undefined;
  readonly redisOptions?: { readonly keyPrefix?: string | undefined } | undefined;
  readonly natMap?: NatMap | undefined;
}

/** An ioredis Cluster. */
export class IoredisCluster implements ClusterClient {
  readonly isCluster = true;
  readonly keyPrefix: string;
  readonly natMap: NatMap | undefined;
  /** The part of `keyPrefix` that the clients of the nodes do not add by themselves. */
  private readonly addedPrefix: string;
  /** ioredis makes another client for a node whose connection has ended. */
  private readonly nodes = new WeakMap<Redis, IoredisServer>();

  /** @throws LockConfigError if the `keyPrefix` of the nodes differs from that of the cluster. */
  constructor(
    private readonly cluster: Cluster,
    /** Whether the module made the client. */
    private readonly isOurs = false,
  ) {
    const { keyPrefix = '', redisOptions, natMap } = (cluster as { readonly options?: Options }).options ?? {};
    const nodePrefix = redisOptions?.keyPrefix ?? '';
    if (nodePrefix !== '' && nodePrefix !== keyPrefix) {
      throw new LockConfigError(
        'redis: keyPrefix and redisOptions.keyPrefix of a Cluster differ; use only one of them.',
      );
    }
    this.keyPrefix = keyPrefix;
    this.addedPrefix = nodePrefix === '' ? keyPrefix : '';
    this.natMap = natMap;
  }

  get status(): string {
    return this.cluster.status;
  }

  get givenNodes(): readonly string[] {
    // A private field of ioredis 5 and 6.
    const given: unknown = Reflect.get(this.cluster, 'startupNodes');
    return Array.isArray(given) ? given.map(nodeAddress) : [];
  }

  get slots(): ClusterClient['slots'] {
    return this.cluster.slots;
  }

  run(command: 'eval' | 'evalsha', script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.cluster[command](script, keys.length, ...keys, ...args);
  }

  nodeAt(address: string): IoredisServer | undefined {
    const isThere = ({ options: { host, port } }: Redis): boolean => `${host}:${port}` === address;
    const client = this.cluster.nodes('all').find(isThere);
    return client === undefined || client.status === 'end' ? undefined : this.serverOf(client);
  }

  connectTo(address: string): IoredisServer | undefined {
    const [known] = this.cluster.nodes('all');
    return known && this.serverOf(known).copy({ ...hostAndPort(address), retryStrategy: null });
  }

  connect(): void {
    this.cluster.connect().catch(() => undefined);
  }

  refresh(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.cluster.refreshSlotsCache((error) => (error ? reject(clusterFailure(error)) : resolve()));
    });
  }

  watch({ refresh, error }: ClusterListener): () => void {
    const onError = (failure: unknown): void => error?.(clusterFailure(failure));
    return watchClient(this.cluster, { error: onError, ...(refresh && { refresh }) });
  }

  private serverOf(client: Redis): IoredisServer {
    let server = this.nodes.get(client);
    if (server !== undefined) return server;
    server = new IoredisServer(client, this.addedPrefix, this.isOurs);
    this.nodes.set(client, server);
    return server;
  }
}

/** Returns the address of a node in the options of a Cluster: a URL, a port, or an object with host and port. */
function nodeAddress(node: ClusterNode): string {
  if (typeof node === 'object') return formatAddress(node.host, node.port);
  const text = String(node);
  if (/^\d+$/.test(text)) return formatAddress('127.0.0.1', Number(text));
  const { hostname, port } = new URL(text.includes('://') ? text : `redis://${text}`);
  return formatAddress(hostname.replace(/^\[|\]$/g, ''), Number(port) || 6379);
}
