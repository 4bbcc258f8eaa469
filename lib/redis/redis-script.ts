import { createHash } from 'node:crypto';
import type { ReplyListener } from '../contract/reply-listener.js';
import type { ScriptClient } from './client-port.js';
import { isEvalShaRefused, isScriptMissing } from './redis-errors.js';

/** A script as `tools/embed-lua.mjs` writes it to a `scripts.ts`. */
export interface EmbeddedScript {
  readonly lua: string;
}

/** The connection on which a script runs. */
export interface ScriptConnection {
  readonly client: ScriptClient;
  /** Digests of the scripts that were sent as a whole. Later runs send the digest. */
  readonly sentScripts: Set<string>;
  /** True if the server refuses EVALSHA. */
  evalOnly: boolean;
  /** Sends what has to stand before each script, which is sent as a whole then. */
  readonly beforeScript?: (() => void) | undefined;
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
    return promiseOf((listener) => this.runThen(connection, keys, args, listener));
  }

  /** Runs the script. Calls the listener with the decoded reply or an error. What `onReply` throws is such an error. */
  // Every lock goes through here, and each promise costs it.
  runThen(
    connection: ScriptConnection,
    keys: readonly string[],
    args: readonly string[],
    listener: ReplyListener<Reply>,
  ): void {
    if (!this.isKnownTo(connection)) return this.report(this.runWhole(connection, keys, args), listener);
    void connection.client.run('evalsha', this.digest, keys, args).then(
      (reply) => this.onReply(reply, listener),
      (error: unknown) => this.report(this.runAgain(error, connection, keys, args), listener),
    );
  }

  private report(pending: Promise<unknown>, listener: ReplyListener<Reply>): void {
    void pending.then(
      (reply) => this.onReply(reply, listener),
      (error: unknown) => listener.onFailed(error),
    );
  }

  private onReply(reply: unknown, listener: ReplyListener<Reply>): void {
    try {
      listener.onReply(this.decode(reply));
    } catch (error) {
      // A server or a proxy may send what no script returns.
      listener.onFailed(error);
    }
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
    connection.sentScripts.add(this.digest);
    connection.beforeScript?.();
    return connection.client.run('eval', this.script.lua, keys, args);
  }
}

/** Returns a promise of the reply to a request. */
export function promiseOf<Reply>(send: (listener: ReplyListener<Reply>) => void): Promise<Reply> {
  return new Promise((onReply, onFailed) => send({ onReply, onFailed }));
}

/** Returns whole milliseconds for Redis, rounded up so that a lease does not end there before it ends here. */
export function wholeMs(leaseMs: number): string {
  return String(Math.ceil(leaseMs));
}

/** Returns true if a script replied 1. A client with `stringNumbers` receives numbers as strings. */
export function isOne(reply: unknown): boolean {
  return Number(reply) === 1;
}

/** Returns `renewed` if an extend script replied 1, else `lost`. */
export function toExtendReply(reply: unknown): 'renewed' | 'lost' {
  return isOne(reply) ? 'renewed' : 'lost';
}

/** Converts a PTTL in milliseconds. A key without TTL has -1, which becomes Infinity. */
export function toRemainingMs(pttl: unknown): number {
  const ms = Number(pttl);
  return ms === -1 ? Infinity : ms;
}
