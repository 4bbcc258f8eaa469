import { toError } from '../redis/redis-errors.js';
import { scriptCommand } from './script-command.js';

/** Sends one command, whose keys have the client's prefix already. */
type SendCommand = (args: readonly string[]) => Promise<unknown>;

/** The reply to one command of a pipeline, as ioredis has it. */
type Outcome = [error: Error | null, result: unknown];

/**
 * Commands that leave together: node-redis writes the commands of a tick in their order, so they are only collected
 * here.
 */
export class NodeRedisPipeline {
  private readonly commands: (readonly string[])[] = [];

  constructor(
    private readonly prefix: string,
    private readonly send: SendCommand,
  ) {}

  eval(script: string, keyCount: number, ...args: string[]): this {
    return this.add(scriptCommand('EVAL', this.prefix, script, keyCount, args));
  }

  evalsha(sha: string, keyCount: number, ...args: string[]): this {
    return this.add(scriptCommand('EVALSHA', this.prefix, sha, keyCount, args));
  }

  wait(replicas: number, timeoutMs: number): this {
    return this.add(['WAIT', String(replicas), String(timeoutMs)]);
  }

  asking(): this {
    return this.add(['ASKING']);
  }

  /** Sends the commands. Returns an error or a reply for each. Does not reject. */
  exec(): Promise<Outcome[]> {
    const onReply = (result: unknown): Outcome => [null, result];
    const onError = (error: unknown): Outcome => [toError(error), undefined];
    return Promise.all(this.commands.map((args) => this.send(args).then(onReply, onError)));
  }

  private add(command: readonly string[]): this {
    this.commands.push(command);
    return this;
  }
}
