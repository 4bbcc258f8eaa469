import {
  checkOptions,
  checkValue,
  hasMethods,
  type OptionRule,
  type OptionRules,
  wholeNumber,
} from '../common/check-options.js';
import { LockConfigError, messageOf } from '../common/errors.js';
import { checkResource, helperKey } from '../keys/resource-key.js';
import { scripts } from './scripts.js';
import type { ScriptClient } from '../redis/client-port.js';
import { isOne, RedisScript, type ScriptConnection } from '../redis/redis-script.js';
import { checkToken, staleOpen, staleWrite } from './check-token.js';

/** The part of a client that a fence uses: an ioredis client, or what `fromNodeRedis` returned. */
export type FenceClient =
  | {
      eval(script: string, keyCount: number, ...args: string[]): Promise<unknown>;
      evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown>;
    }
  | {
      run(
        command: 'eval' | 'evalsha',
        script: string,
        keys: readonly string[],
        args: readonly string[],
      ): Promise<unknown>;
    };

/** The options of a {@link RedisFence}. */
export interface RedisFenceOptions {
  /**
   * How long Redis keeps the token after `open`, in milliseconds: a whole number, at least 1,000. If it is short, a
   * holder that works longer has its write refused. If it is long, Redis keeps a small key for each resource.
   *
   * @default 86_400_000, a day
   */
  readonly retentionMs?: number | undefined;
}

/** A write in Lua. The script sees `keys` and `args` as its `KEYS` and `ARGV`, counted from 1. */
export interface FencedScript {
  /** The text of the script. Pass values in `args`, because Redis keeps the text of every script that it has run. */
  readonly lua: string;
  /** The keys that the script uses, at most 50,000. In a cluster, they must be in the slot of the fence. */
  readonly keys: readonly string[];
  /** The arguments, at most 50,000. None by default. */
  readonly args?: readonly (string | number)[] | undefined;
}

const DAY_MS = 86_400_000;
const LEAST_RETENTION_MS = 1_000;

const RULES: OptionRules<RedisFenceOptions> = {
  retentionMs: wholeNumber(LEAST_RETENTION_MS, Number.MAX_SAFE_INTEGER),
};

/** The limit of each list. All keys and arguments are arguments of one client call. */
const MAX_VALUES = 50_000;

const isValue = (value: unknown): boolean =>
  typeof value === 'string' || (typeof value === 'number' && !Number.isNaN(value));

const listOf = (allowed: string, fits: (value: unknown) => boolean): OptionRule => ({
  allowed: `a list of ${allowed}, at most ${MAX_VALUES}`,
  // `Array.from` also visits holes.
  fits: (list) =>
    Array.isArray(list) && list.length <= MAX_VALUES && Array.from(list as readonly unknown[]).every(fits),
});

const SCRIPT_RULES: OptionRules<FencedScript> = {
  lua: { allowed: 'the text of a script', fits: (value) => typeof value === 'string' && value !== '' },
  keys: listOf('strings', (value) => typeof value === 'string'),
  args: listOf('strings and numbers', isValue),
};

const clientRule: OptionRule = {
  allowed: 'an ioredis client or fromNodeRedis(client): an object with eval() and evalsha()',
  fits: (value) => hasMethods(value, ['eval', 'evalsha']) || hasMethods(value, ['run']),
};

const openScript = new RedisScript(scripts.open, isOne);

/** Which scripts a client has sent. All fences of the client share this. */
const connections = new WeakMap<FenceClient, ScriptConnection>();

/**
 * Refuses writes to Redis from a holder whose lock has since been granted to another holder. Every holder calls `open`
 * with its fencing token before its first read, and writes with `write`. A write is accepted only from the token that
 * last opened the fence, so no other holder has started since the reads. The check and the write are atomic.
 *
 * The fence is a key in the Redis that keeps the data. The locks may be in another Redis. A write that does not use the
 * fence is not checked.
 *
 * @publicApi
 */
export class RedisFence {
  private readonly key: string;
  private readonly connection: ScriptConnection;
  private readonly retentionMs: string;

  /**
   * Creates a fence. Sends nothing, so each call may create its own.
   *
   * @param client the client of the data. It is neither changed nor closed. Its `keyPrefix` applies to all keys.
   * @param resource the name of what is guarded, the same for all holders. In a cluster it determines the slot, as a
   * key does: `order:300` guards the key `order:300`, and `order:{300}` guards all keys with `{300}`.
   * @throws {LockKeyError} if `resource` is not a valid name.
   * @throws {LockConfigError} if `client` is not a client, or an option is unknown or out of range.
   */
  constructor(
    client: FenceClient,
    readonly resource: string,
    options: RedisFenceOptions = {},
  ) {
    checkResource(resource);
    checkValue('RedisFence', 'the client', client, clientRule);
    const { retentionMs = DAY_MS } = checkOptions<RedisFenceOptions>('RedisFence', options, RULES);
    this.key = helperKey(resource, 'opened');
    this.connection = connectionOf(client);
    this.retentionMs = String(retentionMs);
  }

  /**
   * Opens the fence for a token. From now on, `write` accepts only this token, until a higher one opens the fence. Call
   * `open` before the first read, because earlier data may be outdated. May be repeated with the same token.
   *
   * @throws {StaleFenceError} if a higher token, that of a later holder, has opened the fence.
   * @throws {LockConfigError} if the token is not a whole number from 0 to 2⁵³ - 1, or the key of the fence holds
   * something other than a token.
   * @throws the client's error, if Redis refused the request or did not reply.
   */
  async open(token: number): Promise<void> {
    checkToken(token, this.resource);
    let opened: boolean;
    try {
      opened = await openScript.run(this.connection, [this.key], [String(token), this.retentionMs]);
    } catch (error) {
      throw this.toFenceError(error, token);
    }
    if (!opened) throw staleOpen(this.resource, token);
  }

  /**
   * Runs a script if this token has opened the fence last. May be called several times. The check and the script are
   * one atomic step. A script that fails is not rolled back: its earlier commands keep their effect.
   *
   * The client may repeat a write whose reply was lost, so set values rather than increment them.
   *
   * @returns the reply of the script.
   * @throws {StaleFenceError} if nothing was written. A later holder has opened the fence, or `open` was not called
   * with this token, or `retentionMs` has elapsed, or Redis has lost the fence. The holder must discard what it has
   * read. If the client has repeated the write, its first run may have taken effect.
   * @throws {LockConfigError} if nothing was written. The token is not a whole number from 0 to 2⁵³ - 1, the script is
   * not allowed, or the key of the fence holds something other than a token.
   * @throws the client's error, if the script failed, or Redis did not reply.
   */
  async write(token: number, script: FencedScript): Promise<unknown> {
    checkToken(token, this.resource);
    const { lua, keys, args } = checkScript(script);
    try {
      return await behindFence(lua).run(this.connection, [this.key, ...keys], [String(token), ...args.map(String)]);
    } catch (error) {
      throw this.toFenceError(error, token);
    }
  }

  /** Returns the error for what the script of the fence found, and any other error as it is. */
  private toFenceError(error: unknown, token: number): unknown {
    const message = messageOf(error);
    const { resource, key } = this;
    if (message.startsWith('STALEFENCE')) return staleWrite(resource, token);
    if (!message.startsWith('NOTAFENCE ')) return error;
    const found = message.slice('NOTAFENCE '.length);
    const allowed = 'a token that open() wrote. Delete the key, or name the fence differently';
    return new LockConfigError(`The key ${key} of a fence holds ${found}; expected ${allowed}.`, { resource });
  }
}

/** Returns a script whose parts have been checked. @throws LockConfigError if one is not allowed, or is missing. */
function checkScript(script: FencedScript) {
  const place = 'The script behind a fence';
  const { lua, keys, args = [] } = checkOptions<FencedScript>(place, script, SCRIPT_RULES);
  if (lua === undefined || keys === undefined) {
    throw new LockConfigError(`${place} has no ${lua === undefined ? 'lua' : 'keys'}; expected { lua, keys, args }.`);
  }
  return { lua, keys, args };
}

/** Returns a script that checks the token and then runs `lua`, which sees only its own keys and arguments. */
function behindFence(lua: string): RedisScript<unknown> {
  const text = `${scripts.write.lua}\ntable.remove(KEYS, 1)\ntable.remove(ARGV, 1)\n${lua}`;
  return new RedisScript({ lua: text }, (reply) => reply);
}

function connectionOf(client: FenceClient): ScriptConnection {
  let connection = connections.get(client);
  if (connection === undefined) {
    connection = { client: scriptClientOf(client), sentScripts: new Set(), evalOnly: false };
    connections.set(client, connection);
  }
  return connection;
}

function scriptClientOf(client: FenceClient): ScriptClient {
  if ('run' in client) return client;
  return { run: (command, script, keys, args) => client[command](script, keys.length, ...keys, ...args) };
}
