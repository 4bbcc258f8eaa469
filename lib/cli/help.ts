import { EXIT } from './exit-codes.js';

/** An option of the command line. Without `value` it is a switch. */
export interface OptionHelp {
  readonly summary: string;
  readonly short?: string;
  /** What stands for its value in the help. */
  readonly value?: string;
  /** Whether a value is allowed. Default: every value is. */
  readonly isAllowed?: (text: string) => boolean;
  /** What is allowed, for the error. */
  readonly allowed?: string;
}

/** Options by their names. */
export type Options = Readonly<Record<string, OptionHelp>>;

interface CommandHelp {
  /** Whether its argument is a resource. Otherwise it has none. */
  readonly takesResource: boolean;
  /** The options that the command has besides {@link COMMON_OPTIONS}. */
  readonly options: Options;
  readonly summary: string;
  readonly details: string;
}

/** The options of all commands. */
export const COMMON_OPTIONS: Options = {
  redis: { value: 'url', summary: 'where Redis is (default: redis://127.0.0.1:6379)' },
  prefix: { value: 'text', summary: "the module's prefix (default: lock_)" },
  'hash-tag': {
    value: 'source',
    summary: "the module's hashTag: family or resource (default: family)",
    isAllowed: (text) => text === 'family' || text === 'resource',
    allowed: 'family or resource',
  },
  'key-prefix': { value: 'text', summary: 'the keyPrefix of the client of the application' },
  timeout: {
    value: 'ms',
    summary: 'how long the connection, and each request, may take (default: 5000)',
    isAllowed: (text) => isWholeNumber(text, 10, 600_000),
    allowed: 'a whole number from 10 to 600000',
  },
  json: { summary: 'prints JSON' },
  help: { short: 'h', summary: 'prints the help' },
  version: { short: 'V', summary: 'prints the version' },
};

const MATCH: Options = {
  match: {
    value: 'glob',
    summary: 'only resources that match: goods:*, goods:30?, goods:[0-9]*',
    isAllowed: ({ length }) => length > 0 && length <= 1_024,
    allowed: 'a glob of 1 to 1024 characters',
  },
};

const KEY: Options = {
  key: { summary: 'the argument is the Redis key, for modules with a `key` function' },
};

/** The commands by their names. */
export const COMMANDS = {
  list: {
    takesResource: false,
    options: MATCH,
    summary: 'lists the locks that are held or waited for',
    details: `
Examples:
  nestjs-redis-lock list --redis redis://redis.internal:6379
  nestjs-redis-lock list --match 'goods:*' --json | jq -r .resource

--json prints one object a line. The table is sorted by resource. A list without locks is not an error.`,
  },
  inspect: {
    takesResource: true,
    options: KEY,
    summary: 'shows the holders of one lock, and its queue',
    details: `
Examples:
  nestjs-redis-lock inspect goods:300
  nestjs-redis-lock inspect --key 'my:lock:300' --json

The exit code is ${EXIT.notFound} if nobody holds the lock and nobody waits for it. --json then prints null.`,
  },
  watch: {
    takesResource: false,
    options: MATCH,
    summary: 'shows the locks live',
    details: `
Redraws the table once a second until Ctrl-C. If the output is not a terminal, it prints a line for each change.
--json prints all locks as one object a line, once a second.`,
  },
  release: {
    takesResource: true,
    options: {
      ...KEY,
      'if-token': {
        value: 'token',
        summary: 'only if that is the fencing token of the hold',
        isAllowed: (text) => isWholeNumber(text, 1, Number.MAX_SAFE_INTEGER),
        allowed: 'a whole number from 1 up',
      },
      yes: { short: 'y', summary: 'releases without a confirmation' },
    },
    summary: 'ends the hold of a lock by force',
    details: `
The holder's signal aborts, and the next in the queue gets the lock. The work of the holder may still be running: stop
that process first if you can. Shows the holder and asks for a confirmation, unless --yes is given. Ends only the hold
that it found, but all holds of a shared lock or of permits.

Examples:
  nestjs-redis-lock release goods:300
  nestjs-redis-lock release goods:300 --if-token 1795392000000000 --yes

--if-token releases the lock only if that is its fencing token, as inspect shows it. A shared lock has none.
The exit code is ${EXIT.notFound} if nothing was released.`,
  },
} satisfies Readonly<Record<string, CommandHelp>>;

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

const DETAILS = `
Where Redis is:
  redis://user:password@host:6379/0               one server
  rediss://host:6379                              the same over TLS
  redis-cluster://host:7000,host:7001             a cluster, given some of its nodes. Over TLS: rediss-cluster://
  redis-sentinel://host:26379,host:26379/master   the named master, through Sentinels. Over TLS: rediss-sentinel://
  /run/redis.sock                                 a socket

Environment:
  REDIS_URL                                        in place of --redis
  REDIS_USERNAME, REDIS_PASSWORD                   for Redis, if the URL has no password
  REDIS_SENTINEL_USERNAME, REDIS_SENTINEL_PASSWORD for the Sentinels

Other users of the machine can see the arguments of a process, but not its variables.

Exit codes:
  ${EXIT.ok}  found, listed or released
  ${EXIT.internal}  a defect of this program, or an output that cannot be written
  ${EXIT.usage}  wrong arguments, release without --yes and without a terminal, or no ioredis
  ${EXIT.unavailable}  Redis cannot be reached or refuses the request
  ${EXIT.notFound}  inspect: nobody holds the lock or waits for it. release: nothing was released`;

/** Returns the help of the program. */
export function programHelp(): string {
  const commands = Object.entries<CommandHelp>(COMMANDS).map(([name, { takesResource, summary }]) => {
    return [takesResource ? `${name} <resource>` : name, summary] as const;
  });
  return [
    'Usage: nestjs-redis-lock <command> [options]',
    'Shows the locks of nestjs-redis-lock in Redis, and releases them by force.',
    `Commands:\n${columns([...commands, ['help [command]', 'prints the help, or that of one command']])}`,
    `Options:\n${optionLines(COMMON_OPTIONS)}\n${DETAILS}\n`,
  ].join('\n\n');
}

/** Returns the help of a command. */
export function commandHelp(name: CommandName): string {
  const { options, summary, details }: CommandHelp = COMMANDS[name];
  return [
    `Usage: ${usageOf(name)}`,
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`,
    `Options:\n${optionLines({ ...options, ...COMMON_OPTIONS })}\n${details}\n`,
  ].join('\n\n');
}

/** Returns how a command is called. */
export function usageOf(name: CommandName): string {
  return `nestjs-redis-lock ${name}${COMMANDS[name].takesResource ? ' <resource>' : ''} [options]`;
}

/** Returns how an option is given, such as `--match <glob>`. */
export function optionUsage(name: string, { value }: OptionHelp): string {
  return `--${name}${value === undefined ? '' : ` <${value}>`}`;
}

function optionLines(options: Options): string {
  return columns(
    Object.entries(options).map(([name, option]) => {
      const { short, summary } = option;
      return [`${short === undefined ? '' : `-${short}, `}${optionUsage(name, option)}`, summary];
    }),
  );
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n');
}

function isWholeNumber(text: string, min: number, max: number): boolean {
  return /^\d+$/.test(text) && Number(text) >= min && Number(text) <= max;
}
