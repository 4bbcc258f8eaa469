import type { ScanClient } from './key-scan.js';
import type { RedisClient, RedisPipeline } from './redis-client.js';

/**
 * A client whose `enableAutoPipelining` has no effect on scripts. ioredis would collect them, and would send none while
 * it waits for the replies to others. The requests of one tick travel together without that. Each script leaves at
 * once, as a pipeline of one command.
 */
class AtOnceClient implements RedisClient, ScanClient {
  readonly options: RedisClient['options'];

  constructor(private readonly client: RedisClient) {
    this.options = { ...client.options, enableAutoPipelining: false };
  }

  get status(): string {
    return this.client.status;
  }

  get stream(): RedisClient['stream'] {
    return this.client.stream;
  }

  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown> {
    return this.send((pipeline) => pipeline.evalsha(sha, keyCount, ...args));
  }

  eval(script: string, keyCount: number, ...args: string[]): Promise<unknown> {
    return this.send((pipeline) => pipeline.eval(script, keyCount, ...args));
  }

  time(): Promise<unknown> {
    return this.client.time();
  }

  scan(...args: Parameters<ScanClient['scan']>): ReturnType<ScanClient['scan']> {
    return (this.client as RedisClient & ScanClient).scan(...args);
  }

  pipeline(): RedisPipeline {
    return this.client.pipeline();
  }

  on(event: 'ready' | 'close' | 'end' | 'error', listener: (error: Error) => void): unknown {
    return this.client.on(event as 'error', listener);
  }

  off(event: 'ready' | 'close' | 'end' | 'error', listener: (error: Error) => void): unknown {
    return this.client.off(event as 'error', listener);
  }

  listenerCount(event: string): number {
    return this.client.listenerCount(event);
  }

  private async send(add: (pipeline: RedisPipeline) => unknown): Promise<unknown> {
    const pipeline = this.client.pipeline();
    add(pipeline);
    const [first] = (await pipeline.exec()) ?? [];
    if (first === undefined) throw new Error('the pipeline gave no reply');
    const [error, reply] = first;
    if (error !== null) throw error;
    return reply;
  }
}

/** Returns a client that sends scripts at once: the same one, unless it collects commands. */
export function sendingAtOnce(client: RedisClient): RedisClient {
  return client.options?.enableAutoPipelining === true ? new AtOnceClient(client) : client;
}
