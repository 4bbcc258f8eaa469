import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Lane, type Pipe } from './proxy-lane.js';
import { encodeRequest, RespRequestReader } from './resp.js';

export type Direction = 'requests' | 'replies';
/** `replies`: of all connections. `messages`: only what subscribed connections receive, their replies included. */
export type Traffic = Direction | 'messages';
export type ChunkObserver = (direction: Direction, chunk: Buffer) => void;
/** Returns the error that a command gets ("ERR unknown command"), or undefined to let it pass. */
export type CommandFilter = (words: readonly string[]) => string | undefined;

interface Connection {
  readonly client: Socket;
  readonly server: Socket;
  readonly toClient: Pipe;
  readonly toServer: Pipe;
  /** Whether its client is gone, and the server still gets what is on its way. */
  isOrphan: boolean;
}

const SUBSCRIBING = new Set(['SUBSCRIBE', 'PSUBSCRIBE', 'SSUBSCRIBE']);

/** The lanes of each kind of traffic. */
const LANES = {
  requests: ['requests'],
  replies: ['replies', 'messages'],
  messages: ['messages'],
} as const satisfies Record<Traffic, readonly Traffic[]>;

/**
 * A faulty network in front of Redis. A fault applies to present and future connections until it is removed. A refused
 * command is replaced by a script that returns the error, so that errors keep their place in a pipeline.
 */
export class RedisProxy {
  private readonly lanes: Record<Traffic, Lane> = { requests: new Lane(), replies: new Lane(), messages: new Lane() };
  private readonly connections = new Set<Connection>();
  private listener: Server | undefined;
  private boundPort = 0;
  /** Receives each chunk as it arrives, before any fault. */
  observer: ChunkObserver | undefined;
  filter: CommandFilter | undefined;
  /** The most bytes of a packet with replies. The packets leave one after the other, a millisecond apart. */
  packetSize = Infinity;

  private constructor(private target: URL) {}

  static async start(targetUrl: string): Promise<RedisProxy> {
    const proxy = new RedisProxy(new URL(targetUrl));
    await proxy.acceptConnections();
    return proxy;
  }

  get port(): number {
    return this.boundPort;
  }

  /** The URL of the target by way of this proxy, with credentials and database. */
  get url(): string {
    const url = new URL(this.target);
    url.host = `127.0.0.1:${this.port}`;
    return url.href;
  }

  get connectionCount(): number {
    return this.connections.size;
  }

  /** Holds data until `resume`, in order. */
  hold(traffic: Traffic): void {
    for (const lane of this.lanesOf(traffic)) lane.mode = 'hold';
  }

  /** Drops data until `resume`. */
  drop(traffic: Traffic): void {
    for (const lane of this.lanesOf(traffic)) lane.mode = 'drop';
  }

  resume(traffic: Traffic): void {
    for (const lane of this.lanesOf(traffic)) lane.mode = 'flow';
  }

  /** Delays data by `ms` from now on, in order. 0 ends the delay. */
  delay(traffic: Traffic, ms: number): void {
    for (const lane of this.lanesOf(traffic)) lane.delayMs = ms;
  }

  /** Drops the replies of the present connections forever. Their requests arrive. */
  swallowReplies(): void {
    const deaf = new Lane();
    deaf.mode = 'drop';
    for (const { toClient } of this.connections) toClient.moveTo(deaf);
  }

  refuseCommands(names: readonly string[], error: string): void {
    const refused = new Set(names.map((name) => name.toUpperCase()));
    this.filter = (words) => (refused.has(words[0]?.toUpperCase() ?? '') ? error : undefined);
  }

  /** Sends RST to the clients and closes the connections to Redis. Held data is lost. */
  reset(): void {
    for (const { client, server } of this.connections) {
      // Node drops the handle of a socket that is reset while its own FIN is in flight.
      if (client.writableEnded) client.destroy();
      else client.resetAndDestroy();
      server.destroy();
    }
  }

  /**
   * Sends RST to the clients. What is held on its way to Redis stays there, and arrives when the returned function is
   * called.
   */
  resetClients(): () => void {
    const late = new Lane();
    late.mode = 'hold';
    for (const connection of this.connections) {
      if (connection.isOrphan) continue;
      connection.isOrphan = true;
      connection.toServer.moveTo(late);
      connection.toServer.push(null);
      connection.client.resetAndDestroy();
    }
    return () => (late.mode = 'flow');
  }

  /** The URL of the server that new connections lead to. */
  get targetUrl(): string {
    return this.target.href;
  }

  /** Leads new connections to another server. Open connections stay. */
  retarget(url: string): void {
    this.target = new URL(url);
  }

  /** Connects to another server from now on, and cuts connections to others. */
  leadTo(url: string): void {
    if (new URL(url).href === this.targetUrl) return;
    this.retarget(url);
    this.reset();
  }

  /** Sends FIN to one side of every connection. The other direction stays open. */
  halfClose(side: 'client' | 'server'): void {
    for (const connection of this.connections) connection[side].end();
  }

  /** Refuses new connections (ECONNREFUSED). Present connections stay. */
  async refuseConnections(): Promise<void> {
    this.listener?.close();
    this.listener = undefined;
  }

  async acceptConnections(): Promise<void> {
    if (this.listener) return;
    const listener = createServer({ allowHalfOpen: true }, (client) => this.open(client));
    this.listener = listener;
    await new Promise<void>((resolve, reject) =>
      listener.once('error', reject).listen(this.boundPort, '127.0.0.1', resolve),
    );
    this.boundPort = (listener.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const listener = this.listener;
    const closed = listener && new Promise<void>((resolve) => void listener.once('close', resolve));
    await this.refuseConnections();
    this.reset();
    await closed;
  }

  private open(client: Socket): void {
    const server = connect({
      host: this.target.hostname,
      port: Number(this.target.port || 6379),
      allowHalfOpen: true,
    });
    const toServer = this.lanes.requests.open(server);
    const reader = new RespRequestReader();
    const toClient = this.lanes.replies.open(client);
    const connection: Connection = { client, server, toClient, toServer, isOrphan: false };
    this.connections.add(connection);
    const subscribed = (): void => toClient.moveTo(this.lanes.messages);
    this.pipe('requests', client, toServer, (chunk) => this.filtered(reader, chunk, subscribed));
    this.pipe('replies', server, toClient, (chunk) => this.packetsOf(chunk));
    const end = () => {
      client.destroy();
      server.destroy();
      this.connections.delete(connection);
    };
    const onClientGone = (): void => void (connection.isOrphan || end());
    client.setNoDelay(true).on('error', onClientGone).on('close', onClientGone);
    server.setNoDelay(true).on('error', end).on('close', end);
  }

  private pipe(direction: Direction, from: Socket, into: Pipe, convert: (chunk: Buffer) => Buffer[]): void {
    from.on('data', (chunk: Buffer) => {
      this.observer?.(direction, chunk);
      for (const [i, bytes] of convert(chunk).entries()) into.push(bytes, direction === 'replies' ? i : 0);
    });
    from.on('end', () => into.push(null));
  }

  private packetsOf(chunk: Buffer): Buffer[] {
    const packets: Buffer[] = [];
    for (let at = 0; at < chunk.length; at += this.packetSize) packets.push(chunk.subarray(at, at + this.packetSize));
    return packets;
  }

  private lanesOf(traffic: Traffic): readonly Lane[] {
    return LANES[traffic].map((name) => this.lanes[name]);
  }

  private filtered(reader: RespRequestReader, chunk: Buffer, subscribed: () => void): Buffer[] {
    return reader.push(chunk).map(({ words, bytes }) => {
      if (SUBSCRIBING.has(words[0]?.toUpperCase() ?? '')) subscribed();
      const error = this.filter?.(words);
      if (error === undefined) return bytes;
      return encodeRequest(['EVAL', 'return redis.error_reply(ARGV[1])', '0', error.replace(/^-/, '')]);
    });
  }
}
