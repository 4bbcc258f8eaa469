import { type Clock, SystemClock } from '../core/time/clock.js';
import { messageOf } from '../core/errors.js';
import { type CommandCall, type GlobalOptions, readArguments } from './arguments.js';
import type { CommandContext } from './commands/context.js';
import { inspect } from './commands/inspect.js';
import { list } from './commands/list.js';
import { release } from './commands/release.js';
import { watch } from './commands/watch.js';
import { CliError, EXIT, exitCodeOf } from './exit-codes.js';
import type { AdminSettings, LockAdmin } from './lock-admin.js';
import { printableMessage } from './printable.js';
import { redisTarget, type RedisTarget, withoutSecrets } from './redis-target.js';
import type { Terminal } from './terminal.js';

/** What the command line runs in. */
export interface Surroundings {
  readonly version: string;
  readonly env: NodeJS.ProcessEnv;
  readonly terminal: Terminal;
  readonly clock?: Clock;
  /** Connects to Redis. */
  readonly openAdmin: (settings: AdminSettings, clock: Clock) => Promise<LockAdmin>;
}

/** Runs one command. Returns the exit code. Never rejects. */
export async function run(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { version, env, terminal, clock = new SystemClock(), openAdmin } = surroundings;
  let secrets: readonly string[] = [];
  const masked = (text: string): string => withoutSecrets(text, secrets);
  const shown = (error: unknown): string => printableMessage(masked(messageOf(error)));
  try {
    const invocation = readArguments(args, version);
    if ('text' in invocation) {
      const { text, exitCode } = invocation;
      (exitCode === EXIT.ok ? terminal.stdout : terminal.stderr).write(text);
      return exitCode;
    }
    const { options, ...call } = invocation;
    const target = redisTarget(options, env);
    ({ secrets } = target);
    const settings = settingsOf(options, call, target);
    const admin = await openAdmin(settings, clock);
    try {
      const context = {
        admin,
        terminal,
        clock,
        keys: settings,
        shown: target.shown,
        json: options.json,
        messageOf: shown,
      };
      return await runCommand(context, call);
    } finally {
      await admin.close();
    }
  } catch (error) {
    terminal.stderr.write(`${textOf(error, shown, masked)}\n`);
    return exitCodeOf(error);
  }
}

function settingsOf(options: GlobalOptions, call: CommandCall, target: RedisTarget): AdminSettings {
  const { prefix, hashTag, timeoutMs } = options;
  const isKey = 'isKey' in call && call.isKey;
  return { target, prefix, hashTag, timeoutMs, key: isKey ? (key) => key : undefined };
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
    default:
      throw new Error(`there is no command ${String(call satisfies never)}`);
  }
}

/** Returns the text to print for an error: its message and advice or, for a bug, its stack. */
function textOf(error: unknown, shown: (error: unknown) => string, masked: (text: string) => string): string {
  const isExpected = error instanceof CliError || exitCodeOf(error) !== EXIT.internal;
  const advice = error instanceof CliError && error.advice !== undefined ? ` ${error.advice}` : '';
  if (isExpected || !(error instanceof Error)) return `error: ${shown(error)}${advice}`;
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return [`error: ${error.name}: ${shown(error)}`, ...frames.map((line) => printableMessage(masked(line)))].join('\n');
}
