import type { EventEmitter } from 'node:events';
import { TLSSocket } from 'node:tls';
import type { Cluster, Redis, RedisOptions } from 'ioredis';
import type { ClientListener, FurtherConnection, ServerTarget } from '../client-port.js';

type Command = (this: Redis, ...args: readonly (string | number)[]) => Promise<unknown>;

/**
 * Options of every further connection. Its owner subscribes again, and ends it when the client has ended. Until then it
 * comes back, even if the client would not, as ioredis' own clients of the nodes of a cluster.
 */
const COPY: RedisOptions = {
  lazyConnect: true,
  retryStrategy: (times) => Math.min(times * 50, 2_000),
  maxRetriesPerRequest: null,
  disconnectTimeout: 50,
  failoverDetector: false,
  enableAutoPipelining: false,
  autoResendUnfulfilledCommands: false,
};

const PURPOSES: Readonly<Record<'handoffs' | 'replicas', RedisOptions>> = {
  handoffs: {
    connectionName: 'nestjs-redis-lock:handoffs',
    // Channels are named as a whole.
    keyPrefix: '',
    // The owner must know when the channel is subscribed.
    autoResubscribe: false,
  },
  replicas: {
    connectionName: 'nestjs-redis-lock:replicas',
    readOnly: false,
    // WAIT has its own timeout.
    commandTimeout: undefined,
  },
};

/** An ioredis client of one server, which may be a node of a cluster. */
export class IoredisServer implements FurtherConnection {
  readonly keyPrefix: string;
  /** Commands that `enableAutoPipelining` does not collect, if the client has it. */
  private readonly atOnce: Map<string, Command> | undefined;

  /**
   * @param addedPrefix the part of the `keyPrefix` that the client does not add by itself.
   * @param isOurs whether the module made the client.
   */
  constructor(
    /** @internal Public for tests. */
    readonly client: Redis,
    private readonly addedPrefix = '',
    private readonly isOurs = false,
  ) {
    const { keyPrefix = '', enableAutoPipelining } = this.options;
    this.keyPrefix = addedPrefix + keyPrefix;
    if (enableAutoPipelining === true) this.atOnce = new Map();
  }

  get status(): string {
    return this.client.status;
  }

  get target(): ServerTarget {
    return this.options;
  }

  get socket(): FurtherConnection['socket'] {
    return this.client.stream;
  }

  get reset(): (() => void) | undefined {
    return this.isOurs ? () => destroy(this.client.stream, this.options.path) : undefined;
  }

  run(command: 'eval' | 'evalsha', script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.commandOf(command).call(this.client, script, keys.length, ...this.named(keys), ...args);
  }

  send(command: string, keys: readonly string[] = [], args: readonly string[] = []): Promise<unknown> {
    return this.commandOf(command).call(this.client, ...this.named(keys), ...args);
  }

  connect(): void {
    this.client.connect().catch(() => undefined);
  }

  disconnect(reconnect?: boolean): void {
    this.client.disconnect(reconnect);
  }

  subscribe(channel: string, isSharded: boolean): Promise<unknown> {
    return isSharded ? this.client.ssubscribe(channel) : this.client.subscribe(channel);
  }

  unsubscribe(channel: string, isSharded: boolean): Promise<unknown> {
    return isSharded ? this.client.sunsubscribe(channel) : this.client.unsubscribe(channel);
  }

  watch(listener: ClientListener): () => void {
    const { message } = listener;
    return watchClient(this.client, message ? { ...listener, smessage: message } : { ...listener });
  }

  open(purpose: 'handoffs' | 'replicas'): IoredisServer | undefined {
    if (typeof (this.client as Partial<Redis>).duplicate !== 'function') return undefined;
    return this.copy({ ...COPY, ...PURPOSES[purpose] });
  }

  /** Returns a connection with the options of the client but for these. */
  copy(options: RedisOptions): IoredisServer {
    const copy = this.client.duplicate(options);
    onErrors(copy);
    failWithConnection(copy);
    return new IoredisServer(copy, this.addedPrefix);
  }

  // A client of another library that looks like an ioredis client may have no options.
  private get options(): RedisOptions {
    return (this.client as Partial<Redis>).options ?? {};
  }

  private named(keys: readonly string[]): readonly string[] {
    return this.addedPrefix === '' ? keys : keys.map((key) => this.addedPrefix + key);
  }

  /**
   * Returns the client's method, or one that ioredis does not collect. It would send none of those that it collects
   * while it waits for the replies to others.
   */
  private commandOf(name: string): Command {
    if (this.atOnce === undefined) return (this.client as object as Readonly<Record<string, Command>>)[name];
    let command = this.atOnce.get(name);
    if (command === undefined) {
      // ioredis collects commands by the name of the client's method. This one has none.
      command = this.client.createBuiltinCommand(name).string as Command;
      this.atOnce.set(name, command);
    }
    return command;
  }
}

/** Ends a connection. Only one over TCP without TLS can drop what waits in the buffers of the machine. */
function destroy(stream: Redis['stream'] | undefined, path: string | null | undefined): void {
  if (stream === undefined || stream.destroyed) return;
  if (path || stream instanceof TLSSocket) stream.destroy();
  else stream.resetAndDestroy();
}

/**
 * Listens to the errors of a client that was made here. Without a listener ioredis prints every failed connection.
 *
 * If the server refuses SELECT, ioredis goes on in database 0. Locks there do not exclude those of processes that use
 * the right database. So the client connects again instead, until SELECT succeeds.
 */
export function onErrors(client: Pick<Redis | Cluster, 'on' | 'disconnect'>): void {
  client.on('error', ({ command }: Error & { readonly command?: { readonly name: string } }) => {
    if (command?.name === 'select') client.disconnect(true);
  });
}

/**
 * Rejects the requests of a connection that has ended. If ioredis may not send them again, it forgets them, and their
 * promises never settle.
 */
export function failWithConnection(client: Redis): void {
  if (client.options.autoResendUnfulfilledCommands !== false) return;
  client.on('close', () => {
    // A private field of ioredis 5 and 6.
    const unanswered = Reflect.get(client, 'prevCommandQueue') as CommandQueue | null | undefined;
    for (let next = unanswered?.shift(); next !== undefined; next = unanswered?.shift())
      next.command.reject(new Error('Connection is closed.'));
  });
}

/** The part of ioredis' queue that is used. */
interface CommandQueue {
  shift(): { readonly command: { reject(error: Error): void } } | undefined;
}

/** Adds listeners to an ioredis client. Returns a function that removes them. */
export function watchClient(
  client: Pick<EventEmitter, 'on' | 'off' | 'listenerCount'>,
  listener: Readonly<Record<string, Parameters<EventEmitter['on']>[1]>>,
): () => void {
  // ioredis prints errors only if the client has no error listener. A listener of ours would silence them.
  const listensToErrors = client.listenerCount('error') > 0;
  const events = Object.keys(listener).filter((event) => event !== 'error' || listensToErrors);
  for (const event of events) client.on(event, listener[event]);
  return () => {
    for (const event of events) client.off(event, listener[event]);
  };
}
