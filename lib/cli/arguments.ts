import { parseArgs } from 'node:util';
import { messageOf } from '../common/errors.js';
import { CliError, EXIT } from './cli-error.js';

const OPTIONS = {
  url: { type: 'string', multiple: true },
  sentinel: { type: 'string' },
  prefix: { type: 'string', default: 'lock_' },
  'hash-tag': { type: 'string', default: 'family' },
  'key-prefix': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
  match: { type: 'string' },
  key: { type: 'boolean' },
  'if-token': { type: 'string' },
  yes: { type: 'boolean', short: 'y' },
} as const;

/** The options of each command. All others apply to every command. */
const OWN_OPTIONS = {
  list: ['match'],
  inspect: ['key'],
  release: ['key', 'if-token', 'yes'],
} as const;

type Command = keyof typeof OWN_OPTIONS;

/** What the user wants. */
export interface Invocation {
  readonly command: Command | 'help' | 'version';
  /** The argument of `inspect` and `release`. Otherwise empty. */
  readonly resource: string;
  readonly options: GivenOptions;
}

/** The options as they were given. */
export type GivenOptions = ReturnType<typeof parse>['values'];

/** The text that `--help` prints. */
export const HELP = `Usage: nestjs-redis-lock <command> [options]

Shows the locks of nestjs-redis-lock in Redis, and releases them by force.

Commands:
  list                  lists the locks that are held or waited for
    --match <glob>        only resources that match, such as 'goods:*'
  inspect <resource>    shows the holders of one lock, and its queue
  release <resource>    ends the hold of a lock by force, after a confirmation
    --yes, -y             skips the confirmation
    --if-token <token>    only if that is the fencing token of the hold, as inspect shows it

Where Redis is:
  --url <url>           redis://user:password@host:6379/0, rediss:// for TLS, or the path of a socket. Several
                        URLs, or host:port,host:port in one, are a cluster. Default: REDIS_URL, or this machine
  --sentinel <name>     the name of the master. The URLs are those of its Sentinels, whose own user and password
                        are in the variables REDIS_SENTINEL_USERNAME and REDIS_SENTINEL_PASSWORD.

Which keys, as in the application:
  --prefix <text>       the module's prefix. Default: lock_
  --hash-tag <source>   the module's hashTag, family or resource. Default: family
  --key-prefix <text>   the keyPrefix of the application's client
  --key                 for modules with a key function: inspect and release take the Redis key

  --json                prints JSON, one object a line
  --help, -h            prints this text
  --version             prints the version

Exit codes:
  ${EXIT.ok}  found, listed or released
  ${EXIT.internal}  a defect of this program, or an output that cannot be written
  ${EXIT.usage}  wrong arguments, release without --yes and without a terminal, or no ioredis
  ${EXIT.unavailable}  Redis cannot be reached or refuses the request
  ${EXIT.notFound}  inspect: nobody holds the lock or waits for it. release: nothing was released
`;

/** @throws CliError if the arguments are wrong. */
export function readArguments(args: readonly string[]): Invocation {
  const { values: options, positionals } = parse(args);
  const [command, resource = '', ...more] = positionals;
  if (options.version) return { command: 'version', resource, options };
  if (options.help) return { command: 'help', resource, options };
  if (command === undefined || !Object.hasOwn(OWN_OPTIONS, command)) {
    const what = command === undefined ? 'No command is given' : `There is no command '${command}'`;
    throw wrong(`${what}; expected ${Object.keys(OWN_OPTIONS).join(', ')}.`);
  }
  checkOptions(command as Command, options);
  const takesResource = command !== 'list';
  if (takesResource !== (resource !== '') || more.length > 0) {
    throw wrong(`${command} takes ${takesResource ? 'one resource' : 'no argument'}, not ${positionals.length - 1}.`);
  }
  return { command: command as Command, resource, options };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    // The errors of Node have several lines.
    throw wrong(messageOf(error).replaceAll('\n', ' '));
  }
}

/** @throws CliError for an option of another command, and for a value that the option does not take. */
function checkOptions(command: Command, options: GivenOptions): void {
  const own: readonly string[] = OWN_OPTIONS[command];
  const ofOthers = Object.values(OWN_OPTIONS).flat();
  const foreign = ofOthers.find((name) => options[name] !== undefined && !own.includes(name));
  if (foreign !== undefined) throw wrong(`${command} has no option --${foreign}.`);
  const { 'hash-tag': hashTag, 'if-token': token = '1' } = options;
  if (hashTag !== 'family' && hashTag !== 'resource') {
    throw wrong(`--hash-tag is '${hashTag}'; expected family or resource.`);
  }
  if (!/^[1-9]\d*$/.test(token) || !Number.isSafeInteger(Number(token))) {
    throw wrong(`--if-token is '${token}'; expected a whole number from 1 up.`);
  }
}

function wrong(what: string): CliError {
  return new CliError(EXIT.usage, `${what} Try nestjs-redis-lock --help.`);
}
