import { parseArgs } from 'node:util';
import { type CliError, EXIT, type ExitCode, usageError } from './exit-codes.js';
import {
  type CommandName,
  COMMANDS,
  commandHelp,
  COMMON_OPTIONS,
  type Options,
  optionUsage,
  programHelp,
  usageOf,
} from './help.js';
import type { RedisArguments } from './redis-target.js';

/** The options of all commands. */
export interface GlobalOptions extends RedisArguments {
  readonly prefix: string;
  readonly hashTag: 'family' | 'resource';
  readonly timeoutMs: number;
  readonly json: boolean;
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

/** What the user wants: a command, or text such as the help. */
export type Invocation =
  (CommandCall & { readonly options: GlobalOptions }) | { readonly text: string; readonly exitCode: ExitCode };

/** An option as it was given. */
interface GivenOption {
  readonly name: string;
  /** As it is written: `-y` or `--yes`. */
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

/** Values by the names of the options. A switch has an empty one. */
type Values = ReadonlyMap<string, string>;

/**
 * Reads the arguments.
 *
 * @throws CliError if they are wrong.
 */
export function readArguments(args: readonly string[], version: string): Invocation {
  const { given, positionals } = split(args);
  const [name, ...rest] = positionals;
  const isGiven = (option: string): boolean => given.some((each) => each.name === option);
  if (isGiven('version')) return { text: `${version}\n`, exitCode: EXIT.ok };
  if (name === 'help') return { text: helpOf(rest[0]), exitCode: EXIT.ok };
  if (isGiven('help')) return { text: helpOf(name), exitCode: EXIT.ok };
  if (args.length === 0) return { text: programHelp(), exitCode: EXIT.usage };
  const command = commandOf(name);
  const { options, takesResource } = COMMANDS[command];
  const allowed: Options = { ...COMMON_OPTIONS, ...options };
  const values: Values = new Map(given.map((option) => [option.name, valueOf(option, allowed)]));
  if (rest.length !== (takesResource ? 1 : 0)) {
    throw wrong(`the number of arguments of ${command} is ${rest.length}`, usageOf(command));
  }
  return { ...callOf(command, rest[0], values), options: globalOptions(values) };
}

/** Splits the arguments by the options of all commands. */
function split(args: readonly string[]): { given: readonly GivenOption[]; positionals: readonly string[] } {
  const all = [COMMON_OPTIONS, ...Object.values(COMMANDS).map(({ options }) => options)];
  const options = all
    .flatMap((each: Options) => Object.entries(each))
    .map(([name, { value, short }]) => {
      const type = value === undefined ? ('boolean' as const) : ('string' as const);
      return [name, short === undefined ? { type } : { type, short }] as const;
    });
  // Not strict: the errors of this file say what is allowed.
  const config = { args: [...args], options: Object.fromEntries(options), strict: false, tokens: true } as const;
  const { tokens, positionals } = parseArgs(config);
  return { given: tokens.filter((token) => token.kind === 'option'), positionals };
}

function helpOf(name: string | undefined): string {
  return name === undefined ? programHelp() : commandHelp(commandOf(name));
}

function commandOf(name: string | undefined): CommandName {
  if (name !== undefined && Object.hasOwn(COMMANDS, name)) return name as CommandName;
  throw wrong(
    name === undefined ? 'no command is given' : `unknown command '${name}'`,
    Object.keys(COMMANDS).join(', '),
  );
}

function valueOf({ name, rawName, value, inlineValue }: GivenOption, options: Options): string {
  if (!Object.hasOwn(options, name)) {
    const names = Object.keys(options).map((each) => `--${each}`);
    throw wrong(`unknown option '${rawName}'`, names.join(', '));
  }
  const option = options[name];
  const usage = optionUsage(name, option);
  if (option.value === undefined) {
    if (value !== undefined) throw wrong(`${rawName} has a value`, usage);
    return '';
  }
  // The next option is not a value.
  if (value === undefined || (!inlineValue && /^-./.test(value))) {
    throw wrong(`${rawName} has no value`, `${usage}, or --${name}=<${option.value}> if the value begins with "-"`);
  }
  if (option.isAllowed?.(value) === false) throw wrong(`${rawName} is '${value}'`, option.allowed);
  return value;
}

function callOf(command: CommandName, resource: string, values: Values): CommandCall {
  if (command === 'list' || command === 'watch') return { command, match: values.get('match') };
  const isKey = values.has('key');
  if (command === 'inspect') return { command, resource, isKey };
  const ifToken = values.has('if-token') ? Number(values.get('if-token')) : undefined;
  return { command, resource, isKey, ifToken, yes: values.has('yes') };
}

function globalOptions(values: Values): GlobalOptions {
  return {
    redis: values.get('redis'),
    prefix: values.get('prefix') ?? 'lock_',
    hashTag: values.get('hash-tag') === 'resource' ? 'resource' : 'family',
    keyPrefix: values.get('key-prefix'),
    timeoutMs: Number(values.get('timeout') ?? 5_000),
    json: values.has('json'),
  };
}

function wrong(what: string, allowed: string | undefined): CliError {
  return usageError(`${what}. Expected ${allowed}. Try nestjs-redis-lock --help.`);
}
