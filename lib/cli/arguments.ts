import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { EXIT, type ExitCode } from './exit-codes.js';
import type { RedisArguments } from './redis-target.js';

/** The options of all commands. */
export interface GlobalOptions extends RedisArguments {
  readonly prefix: string;
  readonly hashTag: 'family' | 'resource';
  readonly timeout: number;
  readonly json?: true;
}

/** A command with its own arguments. */
export type CommandCall =
  | { readonly command: 'list'; readonly match: string | undefined }
  | { readonly command: 'inspect'; readonly resource: string }
  | { readonly command: 'watch'; readonly match: string | undefined }
  | {
      readonly command: 'release';
      readonly resource: string;
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
  out(text: string): void;
  err(text: string): void;
}

const ENVIRONMENT = `
Environment:
  REDIS_URL                         without --redis, --cluster and --sentinel. Default: redis://127.0.0.1:6379
  REDIS_USERNAME, REDIS_PASSWORD    for Redis, if the URL has no password
  REDIS_SENTINEL_USERNAME,
  REDIS_SENTINEL_PASSWORD           for the Sentinels

Other users of the machine can see the arguments of a process, but not its variables.`;

const EXIT_CODES = `
Exit codes:
  ${EXIT.ok}  found, listed or released
  ${EXIT.notFound}  inspect: nobody holds the lock or waits for it. release: nothing was released
  ${EXIT.usage}  wrong arguments, or release without --yes and without a terminal
  ${EXIT.unavailable}  Redis cannot be reached or refuses the request
  ${EXIT.internal}  a defect of this program`;

const LIST_HELP = `
Examples:
  nestjs-redis-lock list --redis redis://redis.internal:6379
  nestjs-redis-lock list --match 'goods:*' --json | jq -r .resource

--json prints one object a line. The table is sorted by resource. A list without locks is no error.`;

const INSPECT_HELP = `
Examples:
  nestjs-redis-lock inspect goods:300
  nestjs-redis-lock inspect goods:300 --json

The exit code is ${EXIT.notFound} if nobody holds the lock and nobody waits for it.`;

const WATCH_HELP = `
Redraws the table once a second until Ctrl-C. If the output is no terminal, it prints a line for each change.
--json prints all locks as one object a line, once a second.`;

const RELEASE_HELP = `
The holder's signal aborts, and the next in the queue gets the lock. The work of the holder may still run: stop that
process first if you can. Shows the holder and asks for a confirmation, unless --yes is given.

Examples:
  nestjs-redis-lock release goods:300
  nestjs-redis-lock release goods:300 --if-token 1795392000000000 --yes

--if-token releases the lock only if that is its fencing token, as inspect shows it. A shared lock has none.
The exit code is ${EXIT.notFound} if nothing was released.`;

const MATCH = ['--match <glob>', 'only resources that match: goods:*, goods:30?, goods:[0-9]*', toGlob] as const;

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
    .addHelpText('after', ENVIRONMENT + EXIT_CODES);
  addGlobalOptions(program);
  program
    .command('list')
    .description('lists the locks that are held or waited for')
    .option(...MATCH)
    .addHelpText('after', LIST_HELP)
    .action(({ match }: { match?: string }) => onCall({ command: 'list', match }));
  program
    .command('inspect')
    .description('shows the holders of one lock, and its queue')
    .argument('<resource>', 'the resource, such as goods:300')
    .addHelpText('after', INSPECT_HELP)
    .action((resource: string) => onCall({ command: 'inspect', resource }));
  program
    .command('watch')
    .description('shows the locks live')
    .option(...MATCH)
    .addHelpText('after', WATCH_HELP)
    .action(({ match }: { match?: string }) => onCall({ command: 'watch', match }));
  program
    .command('release')
    .description('ends the hold of a lock by force')
    .argument('<resource>', 'the resource, such as goods:300')
    .option('--if-token <token>', 'only if that is the fencing token of the hold', toToken)
    .option('-y, --yes', 'releases without a confirmation')
    .addHelpText('after', RELEASE_HELP)
    .action((resource: string, { ifToken, yes = false }: { ifToken?: number; yes?: boolean }) =>
      onCall({ command: 'release', resource, ifToken, yes }),
    );
  return program;
}

function addGlobalOptions(program: Command): void {
  program
    .option('--redis <url>', 'one Redis: redis://user:password@host:port/db, rediss:// for TLS, or a socket')
    .option('--cluster <nodes>', 'a cluster, by some of its nodes: host:port,host:port')
    .option('--sentinel <nodes>', 'Redis behind Sentinel: host:port,host:port, with --master')
    .option('--master <name>', 'the name of the master at the Sentinels')
    .option('--db <number>', 'the database, with --redis and --sentinel', toDatabase)
    .option('--tls', 'connects by TLS')
    .option('--prefix <text>', "the module's prefix", 'lock_')
    .addOption(
      new Option('--hash-tag <source>', "the module's hashTag").choices(['family', 'resource']).default('family'),
    )
    .option('--timeout <ms>', 'how long the connection, and each request, may take', toTimeout, 5_000)
    .option('--json', 'prints JSON');
}

function toGlob(text: string): string {
  if (text !== '' && text.length <= 1_024) return text;
  throw new InvalidArgumentError('Allowed is a glob of 1 to 1024 characters.');
}

function toDatabase(text: string): number {
  if (/^\d{1,5}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Allowed is the number of a database, from 0 up.');
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
