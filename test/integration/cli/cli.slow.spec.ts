// The command line on real servers, and as a process of its own beside processes that hold locks and wait for them.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { run } from '../../../lib/cli/run.js';
import { FakeTerminal } from '../../support/fake-terminal.js';
import type { LockProcess } from '../../support/lock-process.js';
import { RedisCluster } from '../../support/redis/cluster.js';
import { startRedis } from '../../support/redis/index.js';
import { freePort } from '../../support/redis/local-server.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually } from '../../support/redis-locks.js';
import { findProgram } from '../../support/sql/server.js';
import { forTests } from '../../support/for-tests.js';
import { Contention } from '../../support/contention.js';

const here = forTests(new Contention());

const instance = (identity: string, options: RedisLockModuleOptions = {}): LockService =>
  here.instance({ identity, ...options });

/** Runs a command on the server of this file, with the prefix of this test. */
async function cli(line: string, { terminal = new FakeTerminal(), env = {} } = {}) {
  const args = [...line.split(' '), '--prefix', here.prefix];
  const code = await run(args, { version: '1.2.3', env: { REDIS_URL: here.server.url, ...env }, terminal });
  const { out, err } = terminal;
  return { code, out, err };
}

const objectsIn = (out: string): Record<string, unknown>[] =>
  out
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const resourcesIn = (out: string): string[] =>
  objectsIn(out)
    .map(({ resource }) => String(resource))
    .toSorted();

describe('the key of a resource', () => {
  it.each<[string, RedisLockModuleOptions]>([
    ['--hash-tag resource', { hashTag: 'resource' }],
    ['--key-prefix app:', {}],
  ])('is made with %s as by the module', async (options, made) => {
    const client = here.client(options.startsWith('--key-prefix') ? { keyPrefix: 'app:' } : {});
    await instance('api-1', { redis: client, ...made }).acquire('goods:300');
    expect(await cli('inspect goods:300')).toMatchObject({ code: 4 });
    expect(resourcesIn((await cli(`list --json ${options}`)).out)).toEqual(['goods:300']);
    expect(await cli(`release goods:300 --yes ${options}`)).toMatchObject({ code: 0 });
    expect(await cli(`inspect goods:300 ${options}`)).toMatchObject({ code: 4 });
  });

  it('is the argument with --key, for a module with a key function', async () => {
    const locks = here.instance({ key: (resource) => `${here.prefix}own/${resource}` });
    await locks.acquire('goods:300');
    const key = `${here.prefix}own/goods:300`;
    const { out } = await cli(`inspect --key ${key} --json`);
    expect(JSON.parse(out)).toMatchObject({ resource: key, key });
    expect(await cli(`release --key ${key} --yes`)).toMatchObject({ code: 0 });
    expect(await locks.inspect('goods:300')).toBe(null);
  });
});

describe('a Redis that cannot be used', () => {
  it('is named without the password, if nothing listens there', async () => {
    const port = await freePort();
    const address = `u:s3cret@127.0.0.1:${port}`;
    for (const options of [`--url ${address}`, `--url ${address},127.0.0.1:${port}`, `--sentinel m --url ${address}`]) {
      const { code, out, err } = await cli(`list ${options}`);
      expect({ code, out }).toEqual({ code: 3, out: '' });
      expect(err).toMatch(
        new RegExp(
          `^error: Redis cannot be used at [^@]*127\\.0\\.0\\.1:${port}.*(?:ECONNREFUSED|Connection is closed)`,
        ),
      );
      expect(err).not.toContain('s3cret');
    }
  });

  it('has a wrong password, or no such database', async () => {
    const wrong = await cli(`list --url ${here.server.url.replace('://', '://guest:wr0ng@')}`);
    expect(wrong.code).toBe(3);
    expect(wrong.err).toContain('WRONGPASS');
    expect(wrong.err).not.toContain('wr0ng');
    const elsewhere = await cli(`list --url ${here.server.url}/99`);
    expect(elsewhere.code).toBe(3);
    expect(elsewhere.err).toContain('DB index is out of range');
  });

  it('does not let the user scan, and inspect still works', async () => {
    const env = { REDIS_URL: await here.guest('&*', '+@all', '-scan') };
    const { code, err } = await cli('list', { env });
    expect(code).toBe(3);
    expect(err).toContain('"Permissions" on the page');
    expect(await cli('inspect goods:300', { env })).toMatchObject({ code: 4 });
  });

  it('does not reply', async () => {
    const silent = await startRedis({ local: true });
    silent.pause();
    try {
      const { code, err } = await cli(`list --url ${silent.url}`);
      expect(code).toBe(3);
      expect(err).toContain('it was not ready within 5000 ms');
    } finally {
      silent.resume();
      await silent.stop();
    }
  });
});

describe('a cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start({ replicas: false });
  });
  afterAll(() => cluster.close());

  it.each([1, 2])('is listed on all masters, inspected and released: %i nodes are given', async (count) => {
    const locks = here.instance({ redis: { nodes: [...cluster.nodes] }, identity: 'api-1' });
    const names = Array.from({ length: 12 }, (_, i) => `family${i}:1`);
    await Promise.all(names.map((name) => locks.acquire(name)));
    const nodes = cluster.nodes.slice(0, count).map(({ host, port }) => `${host}:${port}`);
    const option = `--url redis://${nodes.join(',')}`;
    const { code, out } = await cli(`list --json ${option}`);
    expect(code).toBe(0);
    expect(resourcesIn(out)).toEqual(names.toSorted());
    expect(await cli(`release family3:1 --yes ${option}`)).toMatchObject({ code: 0 });
    expect(await cli(`inspect family3:1 ${option}`)).toMatchObject({ code: 4 });
  });
});

it('finds the master behind Sentinels by its name', async () => {
  const set = await ReplicaSet.start({ replicas: 1, sentinels: 1 });
  try {
    const { name, sentinels } = set.address;
    const url = sentinels.map(({ host, port }) => `${host}:${port}`).join(',');
    await instance('api-1', { redis: set.address }).acquire('goods:300');
    expect((await cli(`list --url ${url} --sentinel ${name}`)).out).toMatch(/^goods:300 +exclusive +api-1 /m);
    const wrong = await cli(`list --url ${url} --sentinel elsewhere`);
    expect(wrong.code).toBe(3);
    expect(wrong.err).toContain('Redis cannot be used at elsewhere of the Sentinels');
  } finally {
    await here.clear();
    await set.close();
  }
});

/** A running process of the command, in a terminal by `script` of util-linux if wanted. */
class CliProcess {
  stdout = '';
  stderr = '';
  readonly child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>;

  constructor(line: string, { terminal = false, url = here.server.url } = {}) {
    const hooks = ['--import', './test/support/typescript-hooks.mjs', 'lib/cli/bin.ts'];
    const args = [...hooks, ...line.split(' '), '--prefix', here.prefix];
    const shell = `exec ${[process.execPath, ...args].map((arg) => `'${arg}'`).join(' ')}`;
    const [command, given] = terminal ? ['script', ['-qefc', shell, '/dev/null']] : [process.execPath, args];
    const env = { ...process.env, REDIS_URL: url, TERM: 'xterm' };
    this.child = spawn(command, given, { cwd: join(__dirname, '../../..'), env });
    this.child.stdout.setEncoding('utf8').on('data', (chunk: string) => (this.stdout += chunk));
    this.child.stderr.setEncoding('utf8').on('data', (chunk: string) => (this.stderr += chunk));
    this.ended = new Promise((resolve, reject) => {
      this.child.on('error', reject);
      this.child.on('close', (code) => resolve({ code, stdout: this.stdout, stderr: this.stderr }));
    });
    started.push(this.child);
  }

  until(what: string, isSo: () => boolean): Promise<void> {
    return eventually(`it prints ${what}`, isSo);
  }
}

/** The processes of a test. One that a failed test has left would run without end. */
const started: ChildProcessWithoutNullStreams[] = [];

/** Wraps a test that needs a terminal. Without `script` it prints that the test did not run. In CI it fails. */
function onTerminal(body: () => Promise<void>): () => Promise<void> {
  if (findProgram('script') !== undefined) return body;
  return async () => {
    if (process.env.CI === 'true') throw new Error('script is missing: install util-linux');
    process.stdout.write(`NOT RUN, because script is missing: ${expect.getState().currentTestName}\n`);
  };
}

describe('a process', () => {
  let holder: LockProcess;
  beforeEach(async () => {
    holder = await here.process({ identity: 'api-1' });
    await holder.call('acquire', 'goods:300');
  });
  afterEach(() => {
    for (const child of started.splice(0)) child.kill('SIGKILL');
  });

  it('releases by force: the holder loses the lock', async () => {
    const { code, stdout } = await new CliProcess('release goods:300 --yes').ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'goods:300 was released. api-1 held it.\n' });
    expect(await holder.call('untilLost', 'goods:300')).toContain('its key is gone or belongs to someone else');
  });

  it('has the documented exit codes, and shows no password', async () => {
    const lines = ['--help', '--version', 'inspect free', 'release goods:300', 'nonsense'];
    const codes = await Promise.all(lines.map(async (line) => (await new CliProcess(line).ended).code));
    expect(codes).toEqual([0, 0, 4, 2, 2]);
    const { code, stdout, stderr } = await new CliProcess('list', { url: 'redis://u:s3cret@127.0.0.1:1' }).ended;
    expect([code, stdout, stderr.includes('s3cret')]).toEqual([3, '', false]);
  });

  it('ends quietly if the reader of its output has ended', async () => {
    const command = new CliProcess('list --json');
    command.child.stdout.destroy();
    expect(await command.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it.each([
    ['releases after yes', 'y\r', 0, 'goods:300 was released. api-1 held it.'],
    ['releases nothing after Ctrl-C', '\u0003', 4, 'goods:300 was not released: not confirmed.'],
  ])('%s on a terminal', async (_name, reply, code, said) => {
    await onTerminal(async () => {
      const command = new CliProcess('release goods:300', { terminal: true });
      await command.until('the question', () => command.stdout.includes('Release it by force? [y/N]'));
      command.child.stdin.write(reply);
      const ended = await command.ended;
      expect(ended.code).toBe(code);
      expect(ended.stdout).toContain(said);
    })();
  });
});
