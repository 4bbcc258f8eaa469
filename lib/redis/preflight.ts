import { LockConfigError } from '../core/errors.js';
import { type Clock, withTimeout } from '../core/time/clock.js';
import { type ClusterClient, isCluster, mastersOf, type ServerClient } from './client-port.js';
import { addressOf } from './server-address.js';

/** Why locks do not work on a server or are not safe there, and what to change. */
interface Finding {
  /** Completes "Redis at <address> …". */
  readonly problem: string;
  readonly advice: string;
}

/** Servers that report an old `redis_version` for compatibility. */
const OTHER_SERVER = /^(?:valkey|dragonfly|kvrocks|garnet)_version$/;

const OLDEST_VERSION = [6, 2] as const;

/**
 * Returns the findings in the reply to INFO. A field that the reply does not contain is not reported.
 *
 * @param isOfCluster true if the client is of a cluster and knows the roles of its nodes.
 */
export function findingsIn(info: string, isOfCluster: boolean): readonly Finding[] {
  const fields = new Map(Array.from(info.matchAll(/^(\w+):(.*?)\r?$/gm), ([, name, value]) => [name, value]));
  const found = [evictionIn(fields), versionIn(fields), ...(isOfCluster ? [] : [roleIn(fields), clusterIn(fields)])];
  return found.filter((finding) => finding !== undefined);
}

type Fields = ReadonlyMap<string, string>;

function evictionIn(fields: Fields): Finding | undefined {
  const policy = fields.get('maxmemory_policy') ?? '';
  // Without a limit nothing is evicted. Some services hide theirs.
  if (!/^(?:volatile|allkeys)-/.test(policy) || fields.get('maxmemory') === '0') return undefined;
  return {
    problem: `may delete locks that are held, because its maxmemory-policy is ${policy}`,
    advice: 'Set the policy to noeviction, and keep a cache on another server',
  };
}

function versionIn(fields: Fields): Finding | undefined {
  const version = fields.get('redis_version') ?? '';
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  if (major === undefined || [...fields.keys()].some((name) => OTHER_SERVER.test(name))) return undefined;
  const isOld = (Number(major) - OLDEST_VERSION[0] || Number(minor) - OLDEST_VERSION[1]) < 0;
  return isOld ? { problem: `has version ${version}`, advice: 'Use Redis 6.2 or later, or Valkey' } : undefined;
}

function roleIn(fields: Fields): Finding | undefined {
  if (!/^(?:slave|replica)$/.test(fields.get('role') ?? '')) return undefined;
  const advice = 'Connect to the master, for example through Sentinel';
  return fields.get('slave_read_only') === '0'
    ? { problem: 'is a writable replica, and its master overwrites locks', advice }
    : { problem: 'is a replica and refuses writes', advice };
}

function clusterIn(fields: Fields): Finding | undefined {
  if (fields.get('cluster_enabled') !== '1') return undefined;
  return {
    problem: 'is a node of a cluster, and its client cannot use locks on other nodes',
    advice: 'Pass { nodes: [...] } or an ioredis Cluster',
  };
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
  private readonly looks: readonly EndpointLook[];
  /** Until then findings are collected. */
  private started: boolean;

  constructor(private readonly options: PreflightOptions) {
    this.started = !options.fails;
    const report = (line: string): void => {
      if (this.started) options.report(line);
    };
    this.looks = options.clients.map((client) => new EndpointLook(client, options.clock, report));
  }

  /** Begins the checks. Adds only one listener to each client. Connects a client only if findings are an error. */
  start(): void {
    for (const look of this.looks) look.start(this.options.fails);
  }

  /**
   * Waits until each client was looked at, at most `requestTimeoutMs`. Does not wait if findings are not errors.
   *
   * @throws LockConfigError with the findings until then. Later findings are reported.
   */
  async atStart(): Promise<void> {
    const { clock, requestTimeoutMs, fails } = this.options;
    if (!fails) return;
    const first = this.looks.map((look) => withTimeout(clock, requestTimeoutMs, look.first, (): string[] => []));
    const lines = (await Promise.all(first)).flat();
    this.started = true;
    if (lines.length > 0) throw new LockConfigError(lines.join(' '));
  }

  /** Stops looking and removes the listeners. */
  stop(): void {
    for (const look of this.looks) look.stop();
  }
}

/** Looks at one client's server, or at the masters of its cluster. */
class EndpointLook {
  /** Resolves with the lines of the first look. */
  readonly first: Promise<readonly string[]>;
  private onFirst!: (lines: readonly string[]) => void;
  /** The findings of the last look. They are reported again only after they were gone. */
  private known: ReadonlySet<string> = new Set();
  /** The nodes of a cluster that were looked at. A new connection to a node is a new client. */
  private readonly nodes = new WeakSet<ServerClient>();
  private stopWatching: (() => void) | undefined;
  private looking = false;
  private mustRepeat = false;
  private stopped = false;

  constructor(
    private readonly client: ServerClient | ClusterClient,
    private readonly clock: Clock,
    private readonly report: (line: string) => void,
  ) {
    this.first = new Promise((resolve) => (this.onFirst = resolve));
  }

  private readonly look = (): void => {
    if (!this.looking) void this.lookNow();
    // An INFO that is not answered yet is sent again over a client's next connection.
    else this.mustRepeat = isCluster(this.client);
  };

  start(mayConnect: boolean): void {
    const { client } = this;
    this.stopWatching = isCluster(client) ? client.watch({ refresh: this.look }) : client.watch({ ready: this.look });
    if (client.status === 'ready') this.look();
    else if (client.status === 'end') this.onFirst([]);
    else if (client.status === 'wait' && mayConnect) client.connect();
  }

  stop(): void {
    this.stopped = true;
    this.stopWatching?.();
  }

  private async lookNow(): Promise<void> {
    this.looking = true;
    do {
      this.mustRepeat = false;
      await this.lookAt(this.servers());
    } while (this.mustRepeat && !this.stopped);
    this.looking = false;
  }

  /** Returns the servers to look at now. None if each was looked at. */
  private servers(): readonly ServerClient[] {
    const { client, nodes } = this;
    if (!isCluster(client)) return [client];
    const masters = [...mastersOf(client)].map((at) => client.nodeAt(at)).filter((node) => node !== undefined);
    const isNew = masters.some((node) => !nodes.has(node));
    for (const node of masters) nodes.add(node);
    return isNew ? masters : [];
  }

  private async lookAt(servers: readonly ServerClient[]): Promise<void> {
    if (servers.length === 0) return;
    const replies = await Promise.all(servers.map((server) => readInfo(server, this.clock)));
    if (this.stopped) return;
    const isOfCluster = isCluster(this.client);
    const found = new Map<string, Finding & { readonly at: string[] }>();
    for (const [i, info] of replies.entries()) {
      for (const finding of findingsIn(info ?? '', isOfCluster)) {
        const { at } = found.get(finding.problem) ?? { at: [] };
        found.set(finding.problem, { ...finding, at: [...at, addressOf(servers[i])] });
      }
    }
    const fresh = [...found.values()].filter(({ problem }) => !this.known.has(problem));
    const lines = fresh.map(({ problem, advice, at }) => `Redis at ${at.join(', ')} ${problem}. ${advice}.`);
    const isWhole = replies.every((info) => info !== undefined);
    this.known = new Set([...(isWhole ? [] : this.known), ...found.keys()]);
    for (const line of lines) this.report(line);
    // If the connection ended before the reply, the next one is checked.
    if (isWhole || this.client.status === 'ready') this.onFirst(lines);
  }
}

/** Returns the reply to INFO. Undefined if it is refused, late or not a string. */
async function readInfo(server: ServerClient, clock: Clock): Promise<string | undefined> {
  try {
    // Without a section, because only Redis 7 takes several.
    const reply = await withTimeout<unknown>(clock, INFO_TIMEOUT_MS, server.send('info'), () => undefined);
    return typeof reply === 'string' ? reply : undefined;
  } catch {
    return undefined;
  }
}
