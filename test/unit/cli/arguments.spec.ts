import { describe, expect, it } from '@jest/globals';
import { type Invocation, readArguments } from '../../../lib/cli/arguments.js';
import { CliError } from '../../../lib/cli/exit-codes.js';
import { redisTarget } from '../../../lib/cli/redis-target.js';
import { resolveOptions } from '../../../lib/options/resolve-options.js';

/** Reads arguments as a shell splits them. */
function read(line: string): Invocation {
  return readArguments(line === '' ? [] : line.split(' '), '1.2.3');
}

function errorOf(line: string): CliError | undefined {
  try {
    read(line);
  } catch (error) {
    if (error instanceof CliError) return error;
  }
  return undefined;
}

const DEFAULTS = { prefix: 'lock_', hashTag: 'family', timeoutMs: 5_000, json: false };

describe('the arguments', () => {
  it.each<[string, object]>([
    ['list', { command: 'list', match: undefined, options: DEFAULTS }],
    ['list --match goods:*', { command: 'list', match: 'goods:*' }],
    ['inspect goods:300', { command: 'inspect', resource: 'goods:300', isKey: false }],
    ['inspect --key my:lock', { command: 'inspect', resource: 'my:lock', isKey: true }],
    ['watch --match a*', { command: 'watch', match: 'a*' }],
    ['release a', { command: 'release', resource: 'a', isKey: false, ifToken: undefined, yes: false }],
    ['release a --key -y', { command: 'release', resource: 'a', isKey: true, yes: true }],
    ['release a --if-token 1795392000000000 -y', { command: 'release', ifToken: 1795392000000000, yes: true }],
    ['release --yes -- -a', { command: 'release', resource: '-a', yes: true }],
    ['list --redis redis://a', { options: { ...DEFAULTS, redis: 'redis://a' } }],
    ['--redis redis://a list', { options: { ...DEFAULTS, redis: 'redis://a' } }],
    ['list --key-prefix app:', { options: { ...DEFAULTS, keyPrefix: 'app:' } }],
    ['list --prefix=-a', { options: { prefix: '-a' } }],
    ['list --prefix a --prefix b', { options: { prefix: 'b' } }],
    ['list --prefix= --hash-tag resource --json', { options: { prefix: '', hashTag: 'resource', json: true } }],
    [
      'release a --yes --if-token 5 --json --timeout 250',
      { yes: true, ifToken: 5, options: { json: true, timeoutMs: 250 } },
    ],
  ])('%s', (line, expected) => {
    expect(read(line)).toMatchObject(expected);
  });

  it.each([
    ['--json', 'no command is given. Expected list, inspect, watch, release. Try nestjs-redis-lock --help.'],
    ['nonsense', "unknown command 'nonsense'. Expected list, inspect, watch, release."],
    ['constructor', "unknown command 'constructor'"],
    ['help nonsense', "unknown command 'nonsense'"],
    ['nonsense --help', "unknown command 'nonsense'"],
    ['inspect', 'the number of arguments of inspect is 0. Expected nestjs-redis-lock inspect <resource> [options].'],
    ['list more', 'the number of arguments of list is 1. Expected nestjs-redis-lock list [options].'],
    ['release a b', 'the number of arguments of release is 2.'],
    ['list --nonsense', "unknown option '--nonsense'. Expected --redis, "],
    ['list --constructor', "unknown option '--constructor'"],
    ['list -x', "unknown option '-x'"],
    ['list --no-json', "unknown option '--no-json'"],
    ['list --key', "unknown option '--key'"],
    ['inspect a --match b', "unknown option '--match'"],
    ['list --json=1', '--json has a value. Expected --json.'],
    ['list --match', '--match has no value. Expected --match <glob>, or --match=<glob> if '],
    ['list --prefix --json', '--prefix has no value.'],
    ['list --match=', 'Expected a glob of 1 to 1024 characters.'],
    ['list --hash-tag none', "--hash-tag is 'none'. Expected family or resource."],
    ['list --timeout 5', "--timeout is '5'. Expected a whole number from 10 to 600000."],
    ['release a --if-token 0', 'Expected a whole number from 1 up.'],
    ['release a --if-token 1e5', 'Expected a whole number from 1 up.'],
    ['release a --if-token 9007199254740993', 'Expected a whole number from 1 up.'],
  ])('%j is refused with exit code 2', (line, message) => {
    const error = errorOf(line);
    expect(error).toMatchObject({ exitCode: 2 });
    expect(error?.message).toContain(message);
  });
});

describe('the defaults', () => {
  it('are those of the module', () => {
    const { prefix, hashTag, redis } = resolveOptions({});
    expect(read('list')).toMatchObject({ options: { prefix, hashTag } });
    expect(redisTarget({}, {})).toMatchObject({ redis });
  });
});

describe('the help', () => {
  const helpBy = (line: string): string => {
    const invocation = read(line);
    if (!('text' in invocation)) throw new Error(`${line} prints no text`);
    expect(invocation.exitCode).toBe(0);
    return invocation.text;
  };

  it.each(['--help', '-h', 'help'])('is printed by %s', (line) => {
    const help = helpBy(line);
    for (const text of ['list', 'inspect', 'watch', 'release', '--redis <url>', 'REDIS_PASSWORD', 'Exit codes:']) {
      expect(help).toContain(text);
    }
  });

  it('is printed without arguments, with exit code 2', () => {
    expect(read('')).toEqual({ text: helpBy('--help'), exitCode: 2 });
  });

  it.each([
    ['list --help', '--match <glob>'],
    ['help inspect', 'inspect goods:300'],
    ['watch -h', 'until Ctrl-C'],
    ['release --help', '--if-token <token>'],
  ])('of one command is printed by %s', (line, text) => {
    const help = helpBy(line);
    expect(help).toContain(text);
    expect(help).toContain('--redis <url>');
  });

  it('has no line of more than 120 columns', () => {
    const texts = ['--help', 'help list', 'help inspect', 'help watch', 'help release'].map(helpBy);
    expect(texts.flatMap((text) => text.split('\n')).filter((line) => line.length > 120)).toEqual([]);
  });

  it.each(['--version', '-V', 'list -V'])('%s prints the version', (line) => {
    expect(read(line)).toEqual({ text: '1.2.3\n', exitCode: 0 });
  });
});
