import { LockConfigError } from '../core/errors.js';

/** Commands whose first argument is their only key: the others need a script, which says which keys it uses. */
const COMMANDS = [
  'append',
  'decrby',
  'del',
  'expire',
  'hdel',
  'hincrby',
  'hincrbyfloat',
  'hset',
  'incrby',
  'incrbyfloat',
  'lpop',
  'lpush',
  'lrem',
  'lset',
  'ltrim',
  'persist',
  'pexpire',
  'rpop',
  'rpush',
  'sadd',
  'set',
  'setrange',
  'srem',
  'unlink',
  'xadd',
  'xdel',
  'zadd',
  'zincrby',
  'zrem',
  'zremrangebyscore',
] as const;

/** These take more keys where others take arguments; behind a fence they take one. */
const WITHOUT_ARGUMENTS: readonly string[] = ['del', 'unlink'];

/** A command that can be written behind a fence, named as ioredis names it. */
export type FencedCommandName = (typeof COMMANDS)[number];

/** `['hset', 'order:300', 'state', 'paid']` */
export type FencedCommand = readonly [name: FencedCommandName, key: string, ...args: (string | number)[]];

/** A write in Lua, which sees the keys and arguments given here as its `KEYS` and `ARGV`, from 1 on. */
export interface FencedScript {
  /** Its text must not depend on values: they belong into `args`, or Redis has to keep a script for each. */
  readonly lua: string;
  /** In the fence's slot, in a cluster. */
  readonly keys: readonly string[];
  /** None by default. */
  readonly args?: readonly (string | number)[];
}

/**
 * Turns commands into one script. Its text depends on their names alone, not on how many arguments they have, so that Redis
 * has few to keep; every key is a literal `KEYS[n]`, as managed servers insist on.
 *
 * @throws {LockConfigError} on a command that is not in the list.
 */
export function scriptOf(commands: readonly FencedCommand[]): FencedScript {
  const keys: string[] = [];
  const bounds: number[] = [];
  const values: (string | number)[] = [];
  const calls = commands.map(([name, key, ...args], at) => {
    checkCommand(name, args);
    keys.push(key);
    const first = 2 * commands.length + values.length + 1;
    values.push(...args);
    bounds.push(first, first + args.length - 1);
    const slot = 2 * at + 1;
    return `redis.call('${name.toUpperCase()}', KEYS[${at + 1}], unpack(ARGV, ARGV[${slot}], ARGV[${slot + 1}]))`;
  });
  return { lua: `return { ${calls.join(', ')} }`, keys, args: [...bounds, ...values] };
}

function checkCommand(name: string, args: readonly unknown[]): void {
  if (!(COMMANDS as readonly string[]).includes(name)) {
    throw new LockConfigError(
      `A fence takes no command ${JSON.stringify(name)}, only ${COMMANDS.join(', ')}. ` +
        'Write it as a script: { lua, keys, args }.',
    );
  }
  if (WITHOUT_ARGUMENTS.includes(name) && args.length > 0) {
    throw new LockConfigError(`Behind a fence, ${name} takes one key: give one command for each.`);
  }
}
