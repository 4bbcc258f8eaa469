import { LockConfigError, messageOf } from '../core/errors.js';
import { checkResource, helperKey } from '../core/keys/resource-key.js';
import { luaScripts } from '../lua/index.js';
import type { RedisClient } from '../redis/redis-client.js';
import { RedisScript, type ScriptConnection } from '../redis/redis-script.js';
import { checkToken, opensTooLate, writesTooLate } from './check-token.js';
import { type FencedCommand, type FencedScript, scriptOf } from './fenced-commands.js';

/** What a fence uses of a client: Redis or Cluster, of ioredis 5 or 6. */
export type FenceClient = Pick<RedisClient, 'eval' | 'evalsha'>;

/** How a {@link RedisFence} is kept. */
export interface RedisFenceOptions {
  /**
   * How long the last token is kept after it has opened the fence, in milliseconds, from 1,000 up. Short: long work finds
   * its fence forgotten, and its write refused. Long: Redis keeps a small key for each resource.
   *
   * @default 86_400_000, a day
   */
  readonly retentionMs?: number;
}

const DAY_MS = 86_400_000;
const LEAST_RETENTION_MS = 1_000;

const openScript = new RedisScript(luaScripts.fenceOpen, (reply) => Number(reply) === 1);

/** What a client's server knows; for all fences of it together. */
const connections = new WeakMap<FenceClient, ScriptConnection>();

/**
 * Keeps holders of a lock who come too late from writing to Redis. Every holder opens it with its fencing token before
 * its first read, and writes through it. A write is let in if the same token has opened the fence last, so that between
 * a holder's reads and its writes no other holder has begun; the check and the write are one atomic step.
 *
 * It stands in the Redis that keeps the data, whichever one keeps the locks, and guards what everybody writes through it:
 * who writes past it is not stopped.
 *
 * @publicApi
 */
export class RedisFence {
  private readonly key: string;
  private readonly connection: ScriptConnection;
  private readonly retentionMs: string;

  /**
   * Sends nothing, so that there may be a new one for each call.
   *
   * @param client that of the data; neither changed nor closed. A `keyPrefix` of its is put before all keys.
   * @param resource what is guarded, by any name that all holders agree on. In a cluster it decides on the slot, as a key
   * would: `order:300` guards the key `order:300`, and `order:{300}` all keys with `{300}`.
   * @throws {LockKeyError} where the name makes no safe key.
   * @throws {LockConfigError} where `retentionMs` is out of its range.
   */
  constructor(
    client: FenceClient,
    readonly resource: string,
    { retentionMs = DAY_MS }: RedisFenceOptions = {},
  ) {
    checkResource(resource);
    if (!Number.isSafeInteger(retentionMs) || retentionMs < LEAST_RETENTION_MS) {
      throw new LockConfigError(
        `retentionMs is a whole number from ${LEAST_RETENTION_MS} up, but ${String(retentionMs)} was given.`,
        { resource },
      );
    }
    this.key = helperKey(resource, 'opened');
    this.connection = connectionOf(client);
    this.retentionMs = String(retentionMs);
  }

  /**
   * Lets this token in, and keeps lower ones out from now on. To be called before the first read: what was read before may
   * be outdated when it is written. May be called again with the same token.
   *
   * @throws {StaleFenceError} if a higher token has opened it: there is a later holder.
   * @throws {LockConfigError} if the token is none.
   */
  async open(token: number): Promise<void> {
    checkToken(token, this.resource);
    const opened = await openScript.run(this.connection, [this.key], [String(token), this.retentionMs]);
    if (!opened) throw opensTooLate(this.resource, token);
  }

  /**
   * Runs commands, or a script, if this token has opened the fence last; may be done several times. As in all scripts of
   * Redis nobody comes between, but what was written before a command that fails (on a value of another type, say) stays.
   *
   * Where the answer gets lost, the client may send it again: prefer writing a value to counting one up.
   *
   * @returns the commands' replies, one for each, or the script's.
   * @throws {StaleFenceError} if nothing was written, because a later holder has opened the fence, or it was not opened with
   * this token, or that is longer ago than `retentionMs`, or Redis has lost it. What was read is worth nothing then.
   * @throws {LockConfigError} if the token is none, or a command is not in the list.
   */
  write(token: number, commands: readonly FencedCommand[]): Promise<unknown[]>;
  write(token: number, script: FencedScript): Promise<unknown>;
  async write(token: number, write: readonly FencedCommand[] | FencedScript): Promise<unknown> {
    checkToken(token, this.resource);
    const { lua, keys, args = [] } = isList(write) ? scriptOf(write) : write;
    try {
      return await behindFence(lua).run(
        this.connection,
        [this.key, ...keys],
        [String(token), ...args.map((arg) => String(arg))],
      );
    } catch (error) {
      throw messageOf(error).startsWith('STALEFENCE') ? writesTooLate(this.resource, token) : error;
    }
  }
}

/** The check, and behind it the write, to which its own keys and arguments are all there is. */
function behindFence(lua: string): RedisScript<unknown> {
  const text = `${luaScripts.fenceWrite.lua}\ntable.remove(KEYS, 1)\ntable.remove(ARGV, 1)\n${lua}`;
  return new RedisScript({ lua: text }, (reply) => reply);
}

function connectionOf(client: FenceClient): ScriptConnection {
  let connection = connections.get(client);
  if (connection === undefined) {
    connection = { client, sentScripts: new Set(), evalOnly: false };
    connections.set(client, connection);
  }
  return connection;
}

function isList(write: readonly FencedCommand[] | FencedScript): write is readonly FencedCommand[] {
  return Array.isArray(write);
}
