import { describe, expect, it } from '@jest/globals';
import { type Invocation, readArguments } from '../../../lib/cli/arguments.js';
import { redisTarget } from '../../../lib/cli/redis-target.js';
import { resolveOptions } from '../../../lib/options/resolve-options.js';

/** Reads arguments as a shell splits them. Returns what they mean, and what was printed. */
function read(line: string): { invocation: Invocation; out: string; err: string } {
  let [out, err] = ['', ''];
  const output = { version: '1.2.3', out: (text: string) => (out += text), err: (text: string) => (err += text) };
  const invocation = readArguments(line === '' ? [] : line.split(' '), output);
  return { invocation, out, err };
}

const DEFAULTS = { prefix: 'lock_', hashTag: 'family', timeout: 5_000 };

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
    ['list --namespace shop', { options: { ...DEFAULTS, namespace: 'shop' } }],
    ['list --prefix= --hash-tag resource --json', { options: { prefix: '', hashTag: 'resource', json: true } }],
    [
      'release a --yes --if-token 5 --json --timeout 250',
      { yes: true, ifToken: 5, options: { json: true, timeout: 250 } },
    ],
  ])('%s', (line, expected) => {
    expect(read(line)).toMatchObject({ invocation: expected, out: '', err: '' });
  });

  it.each([
    ['', 'Usage: nestjs-redis-lock'],
    ['nonsense', "unknown command 'nonsense'"],
    ['lst', 'Did you mean list?'],
    ['inspect', "missing required argument 'resource'"],
    ['list more', 'too many arguments'],
    ['list --nonsense', "unknown option '--nonsense'"],
    ['list --namespace a:b', 'Allowed is a string of 1 to 64 letters, digits and the characters . _ -.'],
    ['list --match=', 'Allowed is a glob of 1 to 1024 characters.'],
    ['list --hash-tag none', 'Allowed choices are family, resource.'],
    ['list --timeout 5', 'Allowed is a whole number from 10 to 600000.'],
    ['list --key', "unknown option '--key'"],
    ['release a --if-token 0', 'Allowed is a whole number from 1 up.'],
    ['release a --if-token 1e5', 'Allowed is a whole number from 1 up.'],
    ['release a --if-token 9007199254740993', 'Allowed is a whole number from 1 up.'],
  ])('%j is refused with exit code 2', (line, message) => {
    const { invocation, out, err } = read(line);
    expect(invocation).toEqual({ exitCode: 2 });
    expect(out).toBe('');
    expect(err).toContain(message);
  });
});

describe('the defaults', () => {
  it('are those of the module', () => {
    const { prefix, hashTag, redis } = resolveOptions({});
    expect(read('list').invocation).toMatchObject({ options: { prefix, hashTag } });
    expect(redisTarget({}, {})).toMatchObject({ redis });
  });
});

describe('the help', () => {
  it.each(['--help', '-h', 'help'])('is printed by %s', (line) => {
    const { invocation, out, err } = read(line);
    expect(invocation).toEqual({ exitCode: 0 });
    expect(err).toBe('');
    for (const text of ['list', 'inspect', 'watch', 'release', '--redis <url>', 'REDIS_PASSWORD', 'Exit codes:']) {
      expect(out).toContain(text);
    }
  });

  it.each([
    ['list --help', '--match <glob>'],
    ['help inspect', 'inspect goods:300'],
    ['watch -h', 'until Ctrl-C'],
    ['release --help', '--if-token <token>'],
  ])('of one command is printed by %s', (line, text) => {
    const { invocation, out } = read(line);
    expect(invocation).toEqual({ exitCode: 0 });
    expect(out).toContain(text);
    expect(out).toContain('--redis <url>');
  });

  it('has no line of more than 120 columns', () => {
    const texts = ['--help', 'help list', 'help inspect', 'help watch', 'help release'].map((line) => read(line).out);
    expect(texts.flatMap((text) => text.split('\n')).filter((line) => line.length > 120)).toEqual([]);
  });

  it.each(['--version', '-V'])('%s prints the version', (line) => {
    expect(read(line)).toEqual({ invocation: { exitCode: 0 }, out: '1.2.3\n', err: '' });
  });
});
