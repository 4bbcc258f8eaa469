import { ClientEvents } from './client-events.js';
import { written } from './node-redis.js';
import { NodeRedisPipeline } from './node-redis-pipeline.js';
import { scriptCommand } from './script-command.js';

/** The commands that stores send, by the names that ioredis gives them. Keys get the client's `keyPrefix`. */
export abstract class NodeRedisCommands extends ClientEvents {
  /** The `keyPrefix` of the client. */
  protected abstract readonly prefix: string;

  readonly written = written;

  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown> {
    return this.send(scriptCommand('EVALSHA', this.prefix, sha, keyCount, args));
  }

  eval(script: string, keyCount: number, ...args: string[]): Promise<unknown> {
    return this.send(scriptCommand('EVAL', this.prefix, script, keyCount, args));
  }

  time(): Promise<unknown> {
    return this.send(['TIME']);
  }

  ping(): Promise<unknown> {
    return this.send(['PING']);
  }

  info(...sections: string[]): Promise<unknown> {
    return this.send(['INFO', ...sections]);
  }

  wait(replicas: number, timeoutMs: number): Promise<unknown> {
    return this.send(['WAIT', String(replicas), String(timeoutMs)]);
  }

  cluster(subcommand: string): Promise<unknown> {
    return this.send(['CLUSTER', subcommand]);
  }

  scan(...args: string[]): Promise<[string, string[]]> {
    return this.send(['SCAN', ...args]) as Promise<[string, string[]]>;
  }

  get(key: string): Promise<string | null> {
    return this.sendFor('GET', key) as Promise<string | null>;
  }

  set(key: string, ...args: string[]): Promise<unknown> {
    return this.sendFor('SET', key, ...args);
  }

  setnx(key: string, value: string): Promise<unknown> {
    return this.sendFor('SETNX', key, value);
  }

  getset(key: string, value: string): Promise<string | null> {
    return this.sendFor('GETSET', key, value) as Promise<string | null>;
  }

  expire(key: string, seconds: string): Promise<unknown> {
    return this.sendFor('EXPIRE', key, seconds);
  }

  pexpire(key: string, ms: string): Promise<unknown> {
    return this.sendFor('PEXPIRE', key, ms);
  }

  pttl(key: string): Promise<unknown> {
    return this.sendFor('PTTL', key);
  }

  del(key: string): Promise<unknown> {
    return this.sendFor('DEL', key);
  }

  /** Returns a pipeline whose commands leave together. */
  pipeline(): NodeRedisPipeline {
    return new NodeRedisPipeline(this.prefix, (args) => this.send(args));
  }

  protected abstract send(args: readonly string[]): Promise<unknown>;

  private sendFor(command: string, key: string, ...args: string[]): Promise<unknown> {
    return this.send([command, this.prefix + key, ...args]);
  }
}
