import { toError } from '../redis/redis-errors.js';
import { scriptCommand } from './script-command.js';

/** Sends one command, whose keys have the client's prefix already. */
type SendCommand = (args: readonly string[]) => Promise<unknown>;

/** The reply to one command of a pipeline, as ioredis has it. */
type Outcome = [error: Error | null, result: unknown];

/**
 * Commands that leave together. node-redis writes the commands of a tick in one packet, so they are only collected
 * here. If the connection ends in between, node-redis would send the rest over the next one. What it replies there is
 * replaced by an error, because a WAIT counts for its own connection only.
 */
export class NodeRedisPipeline {
  private readonly commands: (readonly string[])[] = [];

  constructor(
    private readonly prefix: string,
    private readonly send: SendCommand,
    /** Returns how many connections the client has had. */
    private readonly connections: () => number,
  ) {}

  eval(script: string, keyCount: number, ...args: string[]): this {
    this.commands.push(scriptCommand('EVAL', this.prefix, script, keyCount, args));
    return this;
  }

  evalsha(sha: string, keyCount: number, ...args: string[]): this {
    this.commands.push(scriptCommand('EVALSHA', this.prefix, sha, keyCount, args));
    return this;
  }

  wait(replicas: number, timeoutMs: number): this {
    this.commands.push(['WAIT', String(replicas), String(timeoutMs)]);
    return this;
  }

  asking(): this {
    this.commands.push(['ASKING']);
    return this;
  }

  /** Sends the commands. Returns an error or a reply for each. Does not reject. */
  async exec(): Promise<Outcome[]> {
    const { connections } = this;
    let connection: number | undefined;
    const onReply = (result: unknown): Outcome => {
      // A command that was written before its connection ended is rejected: a reply is of the connection of now.
      connection ??= connections();
      if (connection === connections()) return [null, result];
      return [new Error('the connection has ended in between'), undefined];
    };
    const onError = (error: unknown): Outcome => {
      connection ??= connections();
      return [toError(error), undefined];
    };
    return Promise.all(this.commands.map((args) => this.send(args).then(onReply, onError)));
  }
}
