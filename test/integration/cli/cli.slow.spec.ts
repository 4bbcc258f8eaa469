// The command as a process of its own, beside processes that hold locks and wait for them.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually } from '../../support/async.js';
import { LockProcess } from '../../support/lock-process.js';
import { startRedis } from '../../support/redis/index.js';
import { freePort } from '../../support/redis/local-server.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';
import { findProgram } from '../../support/sql/server.js';

const root = join(__dirname, '../../..');
const COMMAND = ['--import', './test/support/typescript-hooks.mjs', 'lib/cli/bin.ts'];

let prefix: string;
let holder: LockProcess;
let waiter: LockProcess;
let granted: Promise<number>;
/** The commands of a test. One that a failed test has left would run forever. */
const started: Cli[] = [];

beforeEach(() => void (prefix = uniquePrefix()));
afterEach(() => {
  for (const { child } of started.splice(0)) child.kill('SIGKILL');
});

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command. */
class Cli {
  stdout = '';
  stderr = '';
  readonly ended: Promise<Ended>;
  readonly child: ChildProcessWithoutNullStreams;

  /** @param terminal whether it has a terminal, by `script` of util-linux. */
  constructor(args: readonly string[], { terminal = false, env = {} } = {}) {
    const all = [...COMMAND, ...args, '--prefix', prefix];
    const [command, given] = terminal
      ? ['script', ['-qefc', `exec ${[process.execPath, ...all].map((arg) => `'${arg}'`).join(' ')}`, '/dev/null']]
      : [process.execPath, all];
    started.push(this);
    this.child = spawn(command, given, {
      cwd: root,
      env: { ...process.env, REDIS_URL: testRedisUrl(), TERM: 'xterm', ...env },
    });
    this.child.stdout.setEncoding('utf8').on('data', (chunk: string) => (this.stdout += chunk));
    this.child.stderr.setEncoding('utf8').on('data', (chunk: string) => (this.stderr += chunk));
    this.ended = new Promise((resolve, reject) => {
      this.child.on('error', reject);
      this.child.on('close', (code) => resolve({ code, stdout: this.stdout, stderr: this.stderr }));
    });
  }

  until(text: string): Promise<void> {
    return eventually(`it prints ${text}`, () => this.stdout.includes(text));
  }
}

/** Wraps a test that needs a terminal. Without `script` it prints that the test did not run. In CI it fails. */
function onTerminal(body: () => Promise<void>): () => Promise<void> {
  if (findProgram('script') !== undefined) return body;
  return () => {
    if (process.env.CI === 'true') throw new Error('script is missing: install util-linux');
    process.stdout.write(`NOT RUN, because script is missing: ${expect.getState().currentTestName}\n`);
    return Promise.resolve();
  };
}

/** Lets a process hold goods:300 in each test of a block, while another one waits for it. */
function withHolderAndWaiter(): void {
  let admin: Redis;

  beforeEach(async () => {
    admin = new Redis(testRedisUrl());
    const start = (identity: string) => LockProcess.start({ redis: testRedisUrl(), prefix, identity });
    [holder, waiter] = await Promise.all([start('api-1'), start('api-2')]);
    await holder.call('acquire', 'goods:300');
    granted = waiter.call('acquire', 'goods:300', { waitMs: 60_000 });
    await eventually('api-2 waits', async () => (await admin.zcard(`{${prefix}goods}:300|queue`)) === 1);
  });
  afterEach(async () => {
    admin.disconnect();
    await Promise.all([holder.kill(), waiter.kill()]);
  });
}

describe('a process', () => {
  it('gives up a Redis that does not reply, and ends', async () => {
    const silent = await startRedis({ local: true });
    silent.pause();
    try {
      const { code, stderr } = await new Cli(['list', '--redis', silent.url, '--timeout', '500']).ended;
      expect(code).toBe(3);
      expect(stderr).toContain('it was not ready within 500 ms');
    } finally {
      silent.resume();
      await silent.stop();
    }
  });

  it('shows no password of its environment', async () => {
    const env = { REDIS_URL: `redis://u:s3cret@127.0.0.1:${await freePort()}`, REDIS_PASSWORD: '0ther-secret' };
    const { code, stdout, stderr } = await new Cli(['list'], { env }).ended;
    expect(code).toBe(3);
    expect(stdout + stderr).not.toMatch(/s3cret|0ther/);
  });
});

describe('a process beside a holder and a waiter', () => {
  withHolderAndWaiter();

  it('lists the lock of another process and its waiter', async () => {
    const { code, stdout, stderr } = await new Cli(['list']).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^goods:300 +exclusive +api-1 +.* +1$/m);
  });

  it('releases by force: the holder loses the lock, and the waiter gets it', async () => {
    const { code, stdout } = await new Cli(['release', 'goods:300', '--yes']).ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'goods:300 was released. api-1 held it.\n' });
    expect(await granted).toBeGreaterThan(1e15);
    expect(await holder.call('untilLost', 'goods:300')).toContain('released by force');
    const after = await new Cli(['inspect', 'goods:300']).ended;
    expect(after.stdout).toContain('  holder    api-2\n');
  });

  it('has the documented exit codes', async () => {
    const codes = await Promise.all(
      [
        ['--help'],
        ['--version'],
        ['inspect', 'free'],
        ['release', 'goods:300'],
        ['nonsense'],
        ['list', '--redis', 'redis://127.0.0.1:1'],
      ].map(async (args) => (await new Cli(args).ended).code),
    );
    expect(codes).toEqual([0, 0, 4, 2, 2, 3]);
  });

  it('ends quietly if the reader of its output has ended', async () => {
    const cli = new Cli(['watch', '--json']);
    await cli.until('goods:300');
    cli.child.stdout.destroy();
    expect(await cli.ended).toMatchObject({ code: 0, stderr: '' });
  });
});

describe('watch', () => {
  withHolderAndWaiter();

  it('prints changes in a pipe, and ends by Ctrl-C', async () => {
    const cli = new Cli(['watch']);
    await cli.until('Z goods:300 held by api-1 (exclusive, token ');
    await holder.call('release', 'goods:300');
    await cli.until('Z goods:300 held by api-2 ');
    cli.child.kill('SIGINT');
    expect(await cli.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('has the exit code of SIGTERM', async () => {
    const cli = new Cli(['watch']);
    await cli.until('Z goods:300 held by api-1');
    cli.child.kill('SIGTERM');
    expect(await cli.ended).toMatchObject({ code: 143, stderr: '' });
  });

  it(
    'redraws a terminal, and restores it at Ctrl-C',
    onTerminal(async () => {
      const cli = new Cli(['watch'], { terminal: true });
      await cli.until('1 lock, 1 waiting');
      await cli.until('\u001b[J\u001b[H');
      cli.child.stdin.write('\u0003');
      const { code, stdout } = await cli.ended;
      expect(code).toBe(0);
      expect(stdout).toContain('\u001b[?1049h\u001b[?25l');
      expect(stdout.endsWith('\u001b[?25h\u001b[?1049l')).toBe(true);
    }),
  );
});

describe('release on a terminal', () => {
  withHolderAndWaiter();

  it(
    'asks, and releases after yes',
    onTerminal(async () => {
      const cli = new Cli(['release', 'goods:300'], { terminal: true });
      await cli.until('Release it by force? [y/N]');
      expect(cli.stdout).toContain('goods:300 has been held by api-1 for');
      cli.child.stdin.write('y\r');
      const { code, stdout } = await cli.ended;
      expect(code).toBe(0);
      expect(stdout).toContain('goods:300 was released. api-1 held it.');
      expect(await granted).toBeGreaterThan(1e15);
    }),
  );

  it(
    'releases nothing after Ctrl-C',
    onTerminal(async () => {
      const cli = new Cli(['release', 'goods:300'], { terminal: true });
      await cli.until('[y/N]');
      cli.child.stdin.write('\u0003');
      const { code, stdout } = await cli.ended;
      expect(code).toBe(4);
      expect(stdout).toContain('goods:300 was not released: not confirmed.');
    }),
  );
});
