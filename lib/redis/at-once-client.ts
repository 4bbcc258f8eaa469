import type { RedisClient, RedisPipeline, ScanClient } from './redis-client.js';

type Command = (this: RedisClient, ...args: readonly (string | number)[]) => Promise<unknown>;

/** Commands that ioredis does not collect. */
interface Commands {
  readonly evalsha: Command;
  readonly eval: Command;
  readonly time: Command;
}

/**
 * A client whose `enableAutoPipelining` has no effect on the requests of stores. ioredis would collect them, and would
 * send none while it waits for the replies to others. The requests of one tick travel together without that.
 */
class AtOnceClient implements RedisClient, ScanClient {
  readonly options: RedisClient['options'];
  private readonly commands: Commands | undefined;

  constructor(private readonly client: RedisClient) {
    this.options = { ...client.options, enableAutoPipelining: false };
    this.commands = commandsOf(client);
  }

  get status(): string {
    return this.client.status;
  }

  get stream(): RedisClient['stream'] {
    return this.client.stream;
  }

  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown> {
    if (this.commands === undefined) return this.sendAlone((pipeline) => pipeline.evalsha(sha, keyCount, ...args));
    return this.commands.evalsha.call(this.client, sha, keyCount, ...args);
  }

  eval(script: string, keyCount: number, ...args: string[]): Promise<unknown> {
    if (this.commands === undefined) return this.sendAlone((pipeline) => pipeline.eval(script, keyCount, ...args));
    return this.commands.eval.call(this.client, script, keyCount, ...args);
  }

  time(): Promise<unknown> {
    return this.commands === undefined ? this.client.time() : this.commands.time.call(this.client);
  }

  scan(...args: Parameters<ScanClient['scan']>): ReturnType<ScanClient['scan']> {
    return (this.client as RedisClient & ScanClient).scan(...args);
  }

  pipeline(): RedisPipeline {
    return this.client.pipeline();
  }

  on(event: 'connecting' | 'ready' | 'close' | 'end' | 'error', listener: (error: Error) => void): unknown {
    return this.client.on(event as 'error', listener);
  }

  off(event: 'connecting' | 'ready' | 'close' | 'end' | 'error', listener: (error: Error) => void): unknown {
    return this.client.off(event as 'error', listener);
  }

  listenerCount(event: string): number {
    return this.client.listenerCount(event);
  }

  /** Sends a script as a pipeline of one command, which leaves at once, too. */
  private async sendAlone(add: (pipeline: RedisPipeline) => unknown): Promise<unknown> {
    const pipeline = this.client.pipeline();
    add(pipeline);
    const [first] = (await pipeline.exec()) ?? [];
    if (first === undefined) throw new Error('the pipeline gave no reply');
    const [error, reply] = first;
    if (error !== null) throw error;
    return reply;
  }
}

/** Returns a client that sends scripts and TIME at once: the same one, unless it collects commands. */
export function sendingAtOnce(client: RedisClient): RedisClient {
  return client.options?.enableAutoPipelining === true ? new AtOnceClient(client) : client;
}

/** Returns undefined for a client that cannot make commands. */
function commandsOf(client: RedisClient): Commands | undefined {
  const [evalsha, evalWhole, time] = ['evalsha', 'eval', 'time'].map((name) => commandOf(client, name));
  return evalsha && evalWhole && time && { evalsha, eval: evalWhole, time };
}

function commandOf(client: RedisClient, name: string): Command | undefined {
  // ioredis collects commands by the name of the client's method. This one has none.
  const command = client.createBuiltinCommand?.(name).string;
  return typeof command === 'function' ? (command as Command) : undefined;
}
