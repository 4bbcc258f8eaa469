import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { isNamespace, NAMESPACE_SHAPE } from '../core/keys/resource-key.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import type { RedisArguments } from './redis-target.js';

/** The options of all commands. */
export interface GlobalOptions extends RedisArguments {
  readonly namespace?: string;
  readonly prefix: string;
  readonly hashTag: 'family' | 'resource';
  readonly timeout: number;
  readonly json?: true;
}

/** A command with its own arguments. */
export type CommandCall =
  | { readonly command: 'list' | 'watch'; readonly match: string | undefined }
  | { readonly command: 'inspect'; readonly resource: string; readonly isKey: boolean }
  | {
      readonly command: 'release';
      readonly resource: string;
      readonly isKey: boolean;
      readonly ifToken: number | undefined;
      readonly yes: boolean;
    };

/** What the user wants: a command, or nothing more than what was printed while the arguments were read. */
export type Invocation = (CommandCall & { readonly options: GlobalOptions }) | { readonly exitCode: ExitCode };

/** Where help and errors go. */
export interface ArgumentOutput {
  readonly version: string;
  /** The columns of the terminal. Undefined for a file or a pipe. */
  readonly columns?: number | undefined;
  readonly out: (text: string) => unknown;
  readonly err: (text: string) => unknown;
}

const MORE_HELP = `
Where Redis is:
  redis://user:password@host:6379/0               one server
  rediss://host:6379                              the same by TLS
  redis-cluster://host:7000,host:7001             a cluster, by some of its nodes. By TLS: rediss-cluster://
  redis-sentinel://host:26379,host:26379/master   by Sentinels and the name of the master. By TLS: rediss-sentinel://
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

const LIST_HELP = `
Examples:
  nestjs-redis-lock list --redis redis://redis.internal:6379
  nestjs-redis-lock list --match 'goods:*' --json | jq -r .resource

--json prints one object a line. The table is sorted by resource. A list without locks is no error.`;

const INSPECT_HELP = `
Examples:
  nestjs-redis-lock inspect goods:300
  nestjs-redis-lock inspect --key 'my:lock:300' --json

The exit code is ${EXIT.notFound} if nobody holds the lock and nobody waits for it. --json then prints null.`;

const WATCH_HELP = `
Redraws the table once a second until Ctrl-C. If the output is no terminal, it prints a line for each change.
--json prints all locks as one object a line, once a second.`;

const RELEASE_HELP = `
The holder's signal aborts, and the next in the queue gets the lock. The work of the holder may still run: stop that
process first if you can. Shows the holder and asks for a confirmation, unless --yes is given. Ends the hold that it
has found, and not the next one.

Examples:
  nestjs-redis-lock release goods:300
  nestjs-redis-lock release goods:300 --if-token 1795392000000000 --yes

--if-token releases the lock only if that is its fencing token, as inspect shows it. A shared lock has none.
The exit code is ${EXIT.notFound} if nothing was released.`;

const MATCH = ['--match <glob>', 'only resources that match: goods:*, goods:30?, goods:[0-9]*', toGlob] as const;
const RESOURCE = ['<resource>', 'the resource, such as goods:300'] as const;
const KEY = ['--key', 'the argument is the Redis key, for modules with a `key` function'] as const;

/** Reads the arguments. Prints help, the version and errors. Never ends the process. */
export function readArguments(args: readonly string[], output: ArgumentOutput): Invocation {
  let call: CommandCall | undefined;
  const program = createProgram(output, (found) => (call = found));
  try {
    program.parse(args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { exitCode: error.exitCode === 0 ? EXIT.ok : EXIT.usage };
  }
  if (call === undefined) return { exitCode: EXIT.usage };
  return { ...call, options: program.opts<GlobalOptions>() };
}

function createProgram({ version, columns, out, err }: ArgumentOutput, onCall: (call: CommandCall) => void): Command {
  const helpWidth = (): number => Math.min(columns ?? 100, 100);
  const program = new Command('nestjs-redis-lock')
    .description('Shows the locks of nestjs-redis-lock in Redis, and releases them by force.')
    .exitOverride()
    .configureOutput({
      writeOut: out,
      writeErr: err,
      getOutHelpWidth: helpWidth,
      getErrHelpWidth: helpWidth,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('Try nestjs-redis-lock --help.')
    .version(version, '-V, --version', 'prints the version')
    .helpOption('-h, --help', 'prints this help')
    .helpCommand('help [command]', 'prints the help of a command')
    .addHelpText('after', MORE_HELP);
  addGlobalOptions(program);
  addListing(program, 'list', onCall)
    .description('lists the locks that are held or waited for')
    .addHelpText('after', LIST_HELP);
  program
    .command('inspect')
    .description('shows the holders of one lock, and its queue')
    .argument(...RESOURCE)
    .option(...KEY)
    .addHelpText('after', INSPECT_HELP)
    .action((resource: string, { key = false }: { key?: boolean }) => {
      onCall({ command: 'inspect', resource, isKey: key });
    });
  addListing(program, 'watch', onCall).description('shows the locks live').addHelpText('after', WATCH_HELP);
  program
    .command('release')
    .description('ends the hold of a lock by force')
    .argument(...RESOURCE)
    .option(...KEY)
    .option('--if-token <token>', 'only if that is the fencing token of the hold', toToken)
    .option('-y, --yes', 'releases without a confirmation')
    .addHelpText('after', RELEASE_HELP)
    .action((resource: string, { key = false, ifToken, yes = false }: ReleaseOptions) => {
      onCall({ command: 'release', resource, isKey: key, ifToken, yes });
    });
  return program;
}

interface ReleaseOptions {
  readonly key?: boolean;
  readonly ifToken?: number;
  readonly yes?: boolean;
}

function addListing(program: Command, command: 'list' | 'watch', onCall: (call: CommandCall) => void): Command {
  return program
    .command(command)
    .option(...MATCH)
    .action(({ match }: { match?: string }) => onCall({ command, match }));
}

function addGlobalOptions(program: Command): void {
  program
    .option('--redis <url>', 'where Redis is (default: redis://127.0.0.1:6379)')
    .option('--namespace <text>', "the module's namespace", toNamespace)
    .option('--prefix <text>', "the module's prefix", 'lock_')
    .addOption(
      new Option('--hash-tag <source>', "the module's hashTag").choices(['family', 'resource']).default('family'),
    )
    .option('--key-prefix <text>', 'the keyPrefix of the client of the application')
    .option('--timeout <ms>', 'how long the connection, and each request, may take', toTimeout, 5_000)
    .option('--json', 'prints JSON');
}

function toNamespace(text: string): string {
  if (isNamespace(text)) return text;
  throw new InvalidArgumentError(`Allowed is ${NAMESPACE_SHAPE}.`);
}

function toGlob(text: string): string {
  if (text !== '' && text.length <= 1_024) return text;
  throw new InvalidArgumentError('Allowed is a glob of 1 to 1024 characters.');
}

function toToken(text: string): number {
  const token = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(token) && token > 0) return token;
  throw new InvalidArgumentError('Allowed is a whole number from 1 up.');
}

function toTimeout(text: string): number {
  const ms = Number(text);
  if (/^\d+$/.test(text) && ms >= 10 && ms <= 600_000) return ms;
  throw new InvalidArgumentError('Allowed is a whole number from 10 to 600000.');
}
