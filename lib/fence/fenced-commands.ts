import { LockConfigError } from '../core/errors.js';

/** Commands whose first argument is their only key. Other commands need a script, which names its keys. */
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

/** These commands take several keys in Redis. A fence accepts one key for each. */
const WITHOUT_ARGUMENTS: readonly string[] = ['del', 'unlink'];

/** The name of a command that {@link RedisFence.write} accepts, as ioredis spells it. */
export type FencedCommandName = (typeof COMMANDS)[number];

/** A command with its key and arguments, for example `['hset', 'order:300', 'state', 'paid']`. */
export type FencedCommand = readonly [name: FencedCommandName, key: string, ...args: (string | number)[]];

/** A write in Lua. The script sees `keys` and `args` as its `KEYS` and `ARGV`, counted from 1. */
export interface FencedScript {
  /** The text of the script. Pass values in `args`, because Redis keeps every text that it has run. */
  readonly lua: string;
  /** The keys that the script uses. In a cluster they must be in the slot of the fence. */
  readonly keys: readonly string[];
  /** The arguments. None by default. */
  readonly args?: readonly (string | number)[];
}

/**
 * Returns one script that runs the commands. Its text depends on their names alone, not on their arguments, so Redis
 * keeps few texts. Every key is a literal `KEYS[n]`, because managed servers require it.
 *
 * @throws {LockConfigError} if a command is not in the list, or has too many keys.
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
