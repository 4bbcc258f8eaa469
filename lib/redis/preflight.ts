import { LockConfigError } from '../common/errors.js';
import { type Clock, withTimeout } from '../clock/clock.js';
import { type ClusterClient, isCluster, mastersOf, type ServerClient } from './client-port.js';
import { addressOf } from './server-address.js';

/** Servers that report an old `redis_version` for compatibility. */
const OTHER_SERVER = /^(?:valkey|dragonfly|kvrocks|garnet)_version:/m;

/**
 * Returns why locks do not work on a server or are not safe there, and what to change. Each finding completes "Redis at
 * <address> …". A field that the reply does not contain is not reported.
 *
 * @param info the reply to INFO.
 * @param isOfCluster true if the client is of a cluster and knows the roles of its nodes.
 */
export function findingsIn(info: string, isOfCluster: boolean): readonly string[] {
  const field = (name: string): string => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';
  const found: string[] = [];
  const policy = field('maxmemory_policy');
  // Without a limit nothing is evicted. Some services hide theirs.
  if (/^(?:volatile|allkeys)-/.test(policy) && field('maxmemory') !== '0') {
    found.push(
      `may delete locks that are held, because its maxmemory-policy is ${policy}. ` +
        'Set the policy to noeviction, and keep a cache on another server.',
    );
  }
  const version = field('redis_version');
  if (/^(?:[0-5]|6\.[01])\./.test(version) && !OTHER_SERVER.test(info)) {
    found.push(`has version ${version}. Use Redis 6.2 or later, or Valkey.`);
  }
  if (!isOfCluster && /^(?:slave|replica)$/.test(field('role'))) {
    const isWritable = field('slave_read_only') === '0';
    const problem = isWritable
      ? 'is a writable replica, and its master overwrites locks'
      : 'is a replica and refuses writes';
    found.push(`${problem}. Connect to the master, for example through Sentinel.`);
  }
  // KeyDB. Both servers accept writes, and the last one wins.
  if (field('role') === 'active-replica') {
    found.push('is an active replica, and the other server overwrites locks. Set active-replica to no.');
  }
  return found;
}

/** A server of a cluster that hangs must not delay the check of the others for longer. */
const INFO_TIMEOUT_MS = 10_000;

/** What a preflight looks at, and where it reports. */
export interface PreflightOptions {
  /** The clients of the module. Each may be of a cluster. */
  readonly clients: readonly (ServerClient | ClusterClient)[];
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  /** Whether findings at the start are an error. */
  readonly fails: boolean;
  /** Called with one line for each new finding. */
  report(line: string): void;
}

/**
 * Looks at each server's reply to INFO, once for each connection, and reports findings. It reports nothing about a
 * server that refuses INFO. Nothing waits for it but `atStart`.
 */
export class Preflight {
  /** One promise for each client. It resolves when all its servers were looked at for the first time. */
  private looks: readonly Promise<void>[] = [];
  private readonly stops: (() => void)[] = [];
  /** The findings of the last look at each address. They are reported again only after they were gone. */
  private readonly known = new Map<string, readonly string[]>();
  /** The connections to nodes of clusters that were looked at. */
  private readonly nodes = new WeakSet<ServerClient>();
  /** The lines of the start, if they are an error. Later ones are reported. */
  private atStartFound: string[] | undefined;

  constructor(private readonly options: PreflightOptions) {
    this.atStartFound = options.fails ? [] : undefined;
  }

  /** Begins the checks. Adds only one listener to each client. Connects a client only if findings are an error. */
  start(): void {
    this.looks = this.options.clients.map((client) => new Promise((resolve) => this.watch(client, resolve)));
  }

  /**
   * Waits until each client was looked at, at most `requestTimeoutMs`. Called if findings are errors.
   *
   * @throws LockConfigError with the findings until then. Later findings are reported.
   */
  async atStart(): Promise<void> {
    const { clock, requestTimeoutMs } = this.options;
    const lines = this.atStartFound;
    if (lines === undefined) return;
    await withTimeout<unknown>(clock, requestTimeoutMs, Promise.all(this.looks), () => undefined);
    this.atStartFound = undefined;
    if (lines.length > 0) throw new LockConfigError(lines.join(' '));
  }

  /** Stops looking and removes the listeners. */
  stop(): void {
    for (const stop of this.stops.splice(0)) stop();
  }

  private watch(client: ServerClient | ClusterClient, onLooked: () => void): void {
    const look = async (): Promise<void> => {
      await Promise.all(this.newServersOf(client).map((server) => this.lookAt(server, isCluster(client))));
      // If the connection ended before the reply, the next one is checked.
      if (client.status === 'ready') onLooked();
    };
    const listener = (): void => void look();
    this.stops.push(isCluster(client) ? client.watch({ refresh: listener }) : client.watch({ ready: listener }));
    if (client.status === 'ready') listener();
    else if (client.status === 'end') onLooked();
    else if (client.status === 'wait' && this.options.fails) client.connect();
  }

  private newServersOf(client: ServerClient | ClusterClient): readonly ServerClient[] {
    if (!isCluster(client)) return [client];
    const { nodes } = this;
    // A new connection to a node is a new client.
    const masters = [...mastersOf(client)].map((at) => client.nodeAt(at));
    const unseen = masters.filter((node): node is ServerClient => node !== undefined && !nodes.has(node));
    for (const node of unseen) nodes.add(node);
    return unseen;
  }

  private async lookAt(server: ServerClient, isOfCluster: boolean): Promise<void> {
    // Without a section, because only Redis 7 takes several. A server may refuse INFO.
    const info = server.send('info').catch(() => undefined);
    const reply = await withTimeout<unknown>(this.options.clock, INFO_TIMEOUT_MS, info, () => undefined);
    if (typeof reply !== 'string' || this.stops.length === 0) return;
    const address = addressOf(server);
    const lines = findingsIn(reply, isOfCluster).map((finding) => `Redis at ${address} ${finding}`);
    const fresh = lines.filter((line) => this.known.get(address)?.includes(line) !== true);
    this.known.set(address, lines);
    if (this.atStartFound !== undefined) this.atStartFound.push(...fresh);
    else for (const line of fresh) this.options.report(line);
  }
}
