import {
  checkOptions,
  checkValue,
  isOptionsObject,
  type OptionRule,
  type OptionRules,
} from '../core/checks/check-options.js';
import { LockConfigError, messageOf } from '../core/errors.js';
import { formatValue } from '../core/format-value.js';

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

/** These commands take several keys in Redis. A fence accepts one key for each command. */
const WITHOUT_ARGUMENTS: readonly string[] = ['del', 'unlink'];

/** The name of a command that {@link RedisFence.write} accepts, as ioredis spells it. */
export type FencedCommandName = (typeof COMMANDS)[number];

/** A command with its key and arguments, for example `['hset', 'order:300', 'state', 'paid']`. */
export type FencedCommand = readonly [name: FencedCommandName, key: string, ...args: (string | number)[]];

/** A write in Lua. The script sees `keys` and `args` as its `KEYS` and `ARGV`, counted from 1. */
export interface FencedScript {
  /** The text of the script. Pass values in `args`, because Redis keeps the text of every script that it has run. */
  readonly lua: string;
  /** The keys that the script uses. In a cluster, they must be in the slot of the fence. */
  readonly keys: readonly string[];
  /** The arguments. None by default. */
  readonly args?: readonly (string | number)[] | undefined;
}

/** Lua refuses to pass more than about 8,000 values to one function. */
const MAX_ARGUMENTS = 7_000;
const MAX_COMMANDS = 1_000;
/** The limit for all keys and arguments of a write. Each is an argument of one client call. */
const MAX_VALUES = 50_000;

/**
 * Returns one script that runs the commands. Its text depends on their names alone, not on their arguments, so Redis
 * keeps few texts. Every key is a literal `KEYS[n]`, because managed servers require it.
 *
 * @throws {LockConfigError} if there are too many commands, or if one is not listed or has too many keys or arguments.
 */
export function scriptOf(commands: readonly FencedCommand[]): FencedScript {
  const keys: string[] = [];
  const bounds: number[] = [];
  const values: (string | number)[] = [];
  const calls = commands.map((command, at) => {
    const [name, key, ...args] = checkCommand(command);
    keys.push(key);
    const first = 2 * commands.length + values.length + 1;
    values.push(...args);
    bounds.push(first, first + args.length - 1);
    const slot = 2 * at + 1;
    return `redis.call('${name.toUpperCase()}', KEYS[${at + 1}], unpack(ARGV, ARGV[${slot}], ARGV[${slot + 1}]))`;
  });
  return checkScript({ lua: `return { ${calls.join(', ')} }`, keys, args: [...bounds, ...values] });
}

/**
 * Returns a copy of the commands of a write. Returns undefined for everything else.
 *
 * @throws {LockConfigError} if there are too many commands, or they cannot be read.
 */
export function commandsOf(write: unknown): readonly FencedCommand[] | undefined {
  let length: number;
  try {
    if (!Array.isArray(write)) return undefined;
    ({ length } = write);
    // `Array.from` also visits holes.
    if (length <= MAX_COMMANDS) return Array.from(write as readonly FencedCommand[]);
  } catch (cause) {
    const problem = `cannot be read (${messageOf(cause)})`;
    throw new LockConfigError(`The write behind a fence ${problem}; ${ALLOWED}.`, { cause });
  }
  throw tooMany('commands', length, MAX_COMMANDS);
}

/**
 * Returns a script whose parts have been checked.
 *
 * @throws {LockConfigError} that names the part, what was given and what is allowed.
 */
export function checkScript(script: FencedScript): FencedScript {
  if (!isOptionsObject(script)) {
    throw new LockConfigError(`The write behind a fence is ${formatValue(script)}; ${ALLOWED}.`);
  }
  const { lua, keys, args = [] } = checkOptions<FencedScript>('The write behind a fence', script, SCRIPT_RULES);
  if (lua === undefined || keys === undefined) {
    throw new LockConfigError(`The write behind a fence has no ${lua === undefined ? 'lua' : 'keys'}; ${ALLOWED}.`);
  }
  const count = keys.length + args.length;
  if (count > MAX_VALUES) throw tooMany('keys and arguments', count, MAX_VALUES);
  return { lua, keys, args };
}

const ALLOWED = 'expected a list of commands, or { lua, keys, args }';

const isValue = (value: unknown): boolean =>
  typeof value === 'string' || (typeof value === 'number' && !Number.isNaN(value));

const listOf = (allowed: string, fits: (value: unknown) => boolean): OptionRule => ({
  allowed: `a list of ${allowed}, at most ${MAX_VALUES}`,
  fits: (list) =>
    Array.isArray(list) && list.length <= MAX_VALUES && Array.from(list as readonly unknown[]).every(fits),
});

const SCRIPT_RULES: OptionRules<FencedScript> = {
  lua: { allowed: 'the text of a script', fits: (value) => typeof value === 'string' && value !== '' },
  keys: listOf('strings', (value) => typeof value === 'string'),
  args: listOf('strings and numbers', isValue),
};

const commandRule = listOf('a name, a key, and strings and numbers', isValue);

function checkCommand(command: FencedCommand): FencedCommand {
  checkValue('The write behind a fence', 'a command', command, commandRule);
  const [name, key, ...args] = command;
  if (!(COMMANDS as readonly string[]).includes(name)) {
    throw new LockConfigError(
      `A fence does not support the command ${formatValue(name)}; expected ${COMMANDS.join(', ')}, ` +
        'or a script: { lua, keys, args }.',
    );
  }
  if (typeof key !== 'string') {
    throw new LockConfigError(`The key of ${name} is ${formatValue(key)}; expected a string.`);
  }
  if (WITHOUT_ARGUMENTS.includes(name) && args.length > 0) {
    throw new LockConfigError(
      `${name} has ${args.length + 1} keys behind a fence; expected one. Repeat the command for each key.`,
    );
  }
  if (args.length > MAX_ARGUMENTS) throw tooMany(`arguments of ${name}`, args.length, MAX_ARGUMENTS);
  return command;
}

function tooMany(what: string, given: number, most: number): LockConfigError {
  return new LockConfigError(`A write behind a fence has ${given} ${what}; expected at most ${most}.`);
}
