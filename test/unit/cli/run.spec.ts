import { describe, expect, it } from '@jest/globals';
import { LockConfigError, LockUnavailableError } from 'nestjs-redis-lock';
import { CliError } from '../../../lib/cli/exit-codes.js';
import { missingIoredis } from '../../../lib/cli/open-admin.js';
import { run } from '../../../lib/cli/run.js';
import { FakeTerminal } from '../../support/fake-terminal.js';

/** Runs `list` with a connection that fails. */
async function failedBy(reason: Error, env: NodeJS.ProcessEnv = {}) {
  const terminal = new FakeTerminal();
  const openAdmin = (): Promise<never> => Promise.reject(reason);
  const code = await run(['list'], { version: '1.2.3', env, terminal, openAdmin });
  return { code, err: terminal.stderr.text, out: terminal.stdout.text };
}

describe('an error', () => {
  it.each<[Error, number]>([
    [new CliError(2, 'wrong'), 2],
    [new CliError(3, 'wrong'), 3],
    [new LockConfigError('wrong'), 2],
    [new LockUnavailableError('wrong'), 3],
  ])('%s is one line, with exit code %i', async (error, code) => {
    expect(await failedBy(error)).toEqual({ code, err: 'error: wrong\n', out: '' });
  });

  it('that is a defect is shown with its stack, with exit code 1', async () => {
    const { code, err } = await failedBy(new TypeError('x is undefined'));
    expect(code).toBe(1);
    expect(err).toMatch(/^error: TypeError: x is undefined\n {4}at /);
  });

  it('is shown without passwords and hostile characters', async () => {
    const env = { REDIS_URL: 'redis://:s3cret@a' };
    const { err } = await failedBy(new LockUnavailableError('s3cret\u001b[2J redis://:s3cret@a'), env);
    expect(err).toBe(String.raw`error: ***\u{1b}[2J redis://***@a` + '\n');
  });

  it('of the arguments is shown without passwords', async () => {
    const terminal = new FakeTerminal();
    const openAdmin = (): Promise<never> => Promise.reject(new Error('it was opened'));
    const code = await run(['redis://:s3cret@a'], { version: '1.2.3', env: {}, terminal, openAdmin });
    expect(code).toBe(2);
    expect(terminal.stderr.text).toMatch(/^error: unknown command 'redis:\/\/\*\*\*@a'\. Expected list, /);
  });

  it('of the arguments is shown without hostile characters', async () => {
    const terminal = new FakeTerminal();
    const openAdmin = (): Promise<never> => Promise.reject(new Error('it was opened'));
    const code = await run(['inspect', '--\u001b[2J'], { version: '1.2.3', env: {}, terminal, openAdmin });
    expect(code).toBe(2);
    expect(terminal.stderr.text).toContain(String.raw`unknown option '--\u{1b}[2J'`);
  });

  it.each([
    ['http://user:s3cret@a', 'http://***@a'],
    // The password of the example, which is the password here.
    ['redis://user:password@a:x', 'redis://***@a:x'],
  ])('of the URL %s is shown without its password, and with the whole example', async (url, shown) => {
    const { code, err } = await failedBy(new Error('it was opened'), { REDIS_URL: url });
    expect(code).toBe(2);
    expect(err).toContain(`error: The URL of Redis is "${shown}". Expected redis://user:password@host:6379/0, `);
  });

  it('of a defect is shown without passwords in its stack', async () => {
    const error = new TypeError('x is undefined');
    error.stack = 'TypeError: x is undefined\n  of s3cret\n    at connect (redis://:s3cret@a)';
    const { err } = await failedBy(error, { REDIS_URL: 'redis://:s3cret@a' });
    expect(err).toBe('error: TypeError: x is undefined\n    at connect (redis://***@a)\n');
  });
});

describe('the help', () => {
  it.each<[string[], 'stdout' | 'stderr', number]>([
    [['--help'], 'stdout', 0],
    [[], 'stderr', 2],
  ])('for %j is printed on %s, with exit code %i', async (args, stream, exitCode) => {
    const terminal = new FakeTerminal();
    const openAdmin = (): Promise<never> => Promise.reject(new Error('it was opened'));
    expect(await run(args, { version: '1.2.3', env: {}, terminal, openAdmin })).toBe(exitCode);
    expect(terminal[stream].text).toMatch(/^Usage: nestjs-redis-lock <command> \[options\]\n/);
    expect(terminal[stream].text).toContain('redis://user:password@host:6379/0');
    expect(terminal.stdout.text + terminal.stderr.text).toBe(terminal[stream].text);
  });
});

describe('a missing ioredis', () => {
  const notFound = (name: string): Error =>
    Object.assign(new Error(`Cannot find package '${name}' imported from /app/cli-lock-admin.js`), {
      code: 'ERR_MODULE_NOT_FOUND',
    });

  it('is named with the command that installs it', () => {
    expect(missingIoredis(notFound('ioredis'))).toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('npm install ioredis'),
    });
  });

  it("is known by the message of Yarn's Plug'n'Play", () => {
    const message = 'nestjs-redis-lock tried to access ioredis (a peer dependency) but it is not provided';
    const error = Object.assign(new Error(message), { code: 'MODULE_NOT_FOUND' });
    expect(missingIoredis(error)).toMatchObject({ exitCode: 2 });
  });

  it('is not confused with other errors', () => {
    expect(missingIoredis(notFound('standard-as-callback'))).toBeUndefined();
    expect(missingIoredis(new Error("'ioredis'"))).toBeUndefined();
  });
});
