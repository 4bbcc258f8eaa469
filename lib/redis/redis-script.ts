import { createHash } from 'node:crypto';
import type { RedisClient } from './redis-client.js';
import type { RedisConnection } from './redis-connection.js';
import { isEvalShaRefused, isScriptMissing, toError } from './redis-errors.js';

/** A script as `tools/embed-lua.mjs` writes it to a `scripts.ts`. */
export interface EmbeddedScript {
  readonly lua: string;
}

/** What is done with the reply to a request, or with its error. */
export interface Outcome<Reply, R> {
  onReply(this: void, reply: Reply): R | Promise<R>;
  onFailed(this: void, error: unknown): R | Promise<R>;
}

/** The connection on which a script runs. */
export interface ScriptConnection {
  readonly client: Pick<RedisClient, 'eval' | 'evalsha'>;
  /** Digests of the scripts that were sent as a whole. Later runs send the digest. */
  readonly sentScripts: Set<string>;
  /** True if the server refuses EVALSHA. */
  evalOnly: boolean;
}

/**
 * A Lua script, typed by its reply. It is sent as a whole once per connection, and by its digest afterwards. It is sent
 * as a whole again if the server has forgotten it or refuses EVALSHA. Nothing is defined on the client.
 */
export class RedisScript<Reply> {
  readonly digest: string;

  constructor(
    private readonly script: EmbeddedScript,
    readonly decode: (reply: unknown) => Reply,
  ) {
    this.digest = createHash('sha1').update(script.lua).digest('hex');
  }

  /** Runs the script and returns its decoded reply. */
  run(connection: ScriptConnection, keys: readonly string[], args: readonly string[]): Promise<Reply> {
    return this.runThen<Reply>(connection, keys, args, PASSED_ON);
  }

  /** Runs the script. Returns what the outcome returns for its decoded reply, or for an error. */
  // Every lock goes through here, and `async` or a further `then` would cost it more promises.
  runThen<T>(
    connection: ScriptConnection,
    keys: readonly string[],
    args: readonly string[],
    outcome: Outcome<Reply, T>,
  ): Promise<T> {
    const { onFailed } = outcome;
    const onReply = (reply: unknown): T | Promise<T> => {
      try {
        return outcome.onReply(this.decode(reply));
      } catch (error) {
        // A server or a proxy may send what no script returns.
        return onFailed(error);
      }
    };
    if (!this.isKnownTo(connection)) return this.runWhole(connection, keys, args).then(onReply, onFailed);
    return connection.client
      .evalsha(this.digest, keys.length, ...keys, ...args)
      .then(onReply, (error: unknown) => this.runAgain(error, connection, keys, args).then(onReply, onFailed));
  }

  /** Runs the script once for each call, in one pipeline. Returns a reply or an error for each. Does not reject. */
  async runAll(
    connection: RedisConnection,
    calls: readonly { readonly keys: readonly string[]; readonly args: readonly string[] }[],
  ): Promise<(Reply | Error)[]> {
    const { client } = connection;
    // A renewal leaves before the work under its lock, which may block the event loop.
    connection.uncork();
    if (calls.length === 1) {
      return Promise.all(calls.map(({ keys, args }) => this.run(connection, keys, args).catch(toError)));
    }
    const pipeline = client.pipeline();
    for (const { keys, args } of calls) {
      // The first script of a connection is sent as a whole, and the server knows it from then on.
      if (this.isKnownTo(connection)) pipeline.evalsha(this.digest, keys.length, ...keys, ...args);
      else pipeline.eval(this.script.lua, keys.length, ...keys, ...args);
      connection.sentScripts.add(this.digest);
    }
    const replies = (await pipeline.exec().catch(() => null)) ?? [];
    return Promise.all(
      calls.map(async ({ keys, args }, i) => {
        const [error, reply] = replies[i] ?? [new Error('the pipeline gave no reply'), undefined];
        if (error === null) return this.decode(reply);
        return this.runAgain(error, connection, keys, args).then(this.decode).catch(toError);
      }),
    );
  }

  private isKnownTo({ evalOnly, sentScripts }: ScriptConnection): boolean {
    return !evalOnly && sentScripts.has(this.digest);
  }

  private async runAgain(
    error: unknown,
    connection: ScriptConnection,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<unknown> {
    if (isEvalShaRefused(error)) connection.evalOnly = true;
    else if (!isScriptMissing(error)) throw error;
    return this.runWhole(connection, keys, args);
  }

  private async runWhole(
    connection: ScriptConnection,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<unknown> {
    const { lua } = this.script;
    connection.sentScripts.add(this.digest);
    return connection.client.eval(lua, keys.length, ...keys, ...args);
  }
}

/** The outcome that returns a reply, and throws an error. */
export const PASSED_ON = {
  onReply: <T>(reply: T): T => reply,
  onFailed: (error: unknown): never => {
    throw error;
  },
};

/** Returns whole milliseconds for Redis, rounded up so that a lease does not end there before it ends here. */
export function wholeMs(leaseMs: number): string {
  return String(Math.ceil(leaseMs));
}
