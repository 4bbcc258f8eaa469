import { type Clock, SystemClock } from '../core/time/clock.js';
import { messageOf } from '../core/errors.js';
import { type CommandCall, readArguments } from './arguments.js';
import type { CommandContext } from './commands/context.js';
import { inspect } from './commands/inspect.js';
import { list } from './commands/list.js';
import { release } from './commands/release.js';
import { watch } from './commands/watch.js';
import { CliError, EXIT, exitCodeOf } from './exit-codes.js';
import type { AdminSettings, LockAdmin } from './lock-admin.js';
import { printableMessage } from './printable.js';
import { redisTarget, withoutSecrets } from './redis-target.js';
import { columnsOf, type Terminal } from './terminal.js';

/** What the command line runs in. */
export interface Surroundings {
  readonly version: string;
  readonly env: NodeJS.ProcessEnv;
  readonly terminal: Terminal;
  readonly clock?: Clock;
  /** Connects to Redis. */
  openAdmin(settings: AdminSettings, clock: Clock): Promise<LockAdmin>;
}

/** Runs one command. Returns the exit code, and throws nothing. */
export async function run(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { version, env, terminal, clock = new SystemClock(), openAdmin } = surroundings;
  let secrets: readonly string[] = [];
  const shown = (error: unknown): string => printableMessage(withoutSecrets(messageOf(error), secrets));
  try {
    const invocation = readArguments(args, {
      version,
      columns: columnsOf(terminal.stdout),
      out: (text) => terminal.stdout.write(text),
      // The user may have mistaken the place of a URL.
      err: (text) => terminal.stderr.write(withoutSecrets(text, secrets)),
    });
    if ('exitCode' in invocation) return invocation.exitCode;
    const { options, ...call } = invocation;
    const target = redisTarget(options, env);
    ({ secrets } = target);
    const { prefix, hashTag, timeout: timeoutMs, json = false } = options;
    const admin = await openAdmin({ target, prefix, hashTag, timeoutMs }, clock);
    try {
      const context = { admin, terminal, clock, prefix, shown: target.shown, json, messageOf: shown };
      return await runCommand(context, call);
    } finally {
      await admin.close();
    }
  } catch (error) {
    terminal.stderr.write(`${textOf(error, shown)}\n`);
    return exitCodeOf(error);
  }
}

function runCommand(context: CommandContext, call: CommandCall): Promise<number> {
  switch (call.command) {
    case 'list':
      return list(context, call.match);
    case 'inspect':
      return inspect(context, call.resource);
    case 'watch':
      return watch(context, call.match);
    case 'release':
      return release(context, call);
  }
}

/** Returns what is printed for an error: its message, and for a defect its stack. */
function textOf(error: unknown, shown: (error: unknown) => string): string {
  const isExpected = error instanceof CliError || exitCodeOf(error) !== EXIT.internal;
  if (isExpected || !(error instanceof Error)) return `error: ${shown(error)}`;
  const frames = (error.stack ?? '').split('\n').slice(1).map(printableMessage);
  return [`error: ${error.name}: ${shown(error)}`, ...frames].join('\n');
}
