import { messageOf } from '../common/errors.js';
import type { KeyOptions } from '../keys/resource-key.js';
import { HELP, readArguments } from './arguments.js';
import { EXIT, type ExitCode, exitCodeOf } from './cli-error.js';
import { inspect, list, release } from './commands.js';
import { type AdminSettings, type LockAdmin, openAdmin } from './lock-admin.js';
import { printableMessage } from './printable.js';
import { redisTarget } from './redis-target.js';
import type { Terminal } from './terminal.js';

/** What the command line runs in. */
export interface Surroundings {
  readonly version: string;
  readonly env: NodeJS.ProcessEnv;
  readonly terminal: Terminal;
  /** Connects to Redis. Default: with ioredis. */
  readonly openAdmin?: (settings: AdminSettings) => Promise<LockAdmin>;
}

/** Runs one command. Returns the exit code. Never rejects. */
export async function run(args: readonly string[], surroundings: Surroundings): Promise<ExitCode> {
  const { version, env, terminal, openAdmin: open = openAdmin } = surroundings;
  try {
    const { command, resource, options } = readArguments(args);
    if (command === 'help' || command === 'version') {
      await terminal.print(command === 'help' ? HELP : `${version}\n`);
      return EXIT.ok;
    }
    const { prefix, key: isKey } = options;
    const hashTag = options['hash-tag'] as KeyOptions['hashTag'];
    const key = isKey ? (given: string): string => given : undefined;
    const admin = await open({ target: redisTarget(options, env), prefix, hashTag, key });
    const context = { admin, terminal, options, resource };
    try {
      if (command === 'inspect') return await inspect(context);
      if (command === 'release') return await release(context);
      return await list(context);
    } finally {
      await admin.close();
    }
  } catch (error) {
    terminal.complain(textOf(error));
    return exitCodeOf(error);
  }
}

/** Returns the text to print for an error: its message or, for a defect of this program, also its stack. */
function textOf(error: unknown): string {
  const message = printableMessage(messageOf(error));
  if (exitCodeOf(error) !== EXIT.internal || !(error instanceof Error)) return `error: ${message}`;
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return [`error: ${error.name}: ${message}`, ...frames.map(printableMessage)].join('\n');
}
