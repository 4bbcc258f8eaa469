import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { eventually } from '../support/async.js';
import { testRedisUrl } from '../support/shared-redis.js';

jest.setTimeout(90_000);

const root = resolve(__dirname, '../..');
const compiled = join(root, '.cache/sample/sample/flash-sale/src');

/** A running script of the sample, and its output. */
class Script {
  output = '';
  readonly ended: Promise<number | string>;
  private readonly printed = new EventEmitter();

  constructor(
    private readonly child: ChildProcess,
    running: Set<Script>,
  ) {
    running.add(this);
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.output += chunk.toString();
        this.printed.emit('chunk');
      });
    }
    this.ended = once(child, 'close').then(([code, signal]) => {
      running.delete(this);
      return (code ?? signal) as number | string;
    });
  }

  /** Sends a signal to the script and all its children, as a terminal does. npm passes no signal on. */
  signal(name: NodeJS.Signals): void {
    process.kill(-(this.child.pid as number), name);
  }

  /** Sends a signal to the script only. */
  kill(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** Waits until the output matches the pattern. */
  async prints(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.output)) {
      const end = await Promise.race([this.ended, once(this.printed, 'chunk').then(() => undefined)]);
      if (end === undefined || pattern.test(this.output)) continue;
      throw new Error(`ended with ${end} before it printed ${pattern}:\n${this.output}`);
    }
  }

  get urls(): string[] {
    return this.output.match(/http:\/\/localhost:\d+/g) ?? [];
  }

  get redisPort(): number {
    return Number(/^Redis .*, port (\d+)$/m.exec(this.output)?.[1]);
  }
}

async function accepts(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}

function untilClosed(url: string): Promise<void> {
  return eventually(`${url} is closed`, async () => !(await accepts(url)), 60_000);
}

describe('the flash sale', () => {
  const running = new Set<Script>();
  let folder: string;

  const run = (command: string, args: string[], env: NodeJS.ProcessEnv = {}) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new Script(child, running);
  };
  const npm = (...args: string[]) => run('npm', args);
  const node = (file: string, env?: NodeJS.ProcessEnv) => run(process.execPath, [join(compiled, file)], env);
  const noRedis = () => ({
    PATH: folder,
    XDG_CACHE_HOME: folder,
    TMPDIR: folder,
    DOCKER_HOST: `unix://${folder}/none`,
    REDIS_URL: '',
    REDIS_SERVER_BIN: '',
  });

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'flash-sale-'));
  });

  afterEach(async () => {
    for (const script of running) script.signal('SIGKILL');
    await Promise.all([...running].map(({ ended }) => ended));
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('npm run demo sells exactly the stock with the lock, and oversells without', async () => {
    const demo = npm('run', 'demo');
    expect({ exit: await demo.ended, output: demo.output }).toMatchObject({ exit: 0 });
    const row = (title: string) => demo.output.split('\n').find((line) => line.trim().startsWith(title));
    const numbers = (title: string) => (row(title) ?? '').replace(title, '').match(/\d+/g)?.map(Number) ?? [];
    expect(numbers("@Locked('goods:<id>')").slice(0, 5)).toEqual([20, 60, 20, 0, 0]);
    const [stock, buyers, sold = 0, , oversold = 0] = numbers('without the lock');
    expect([stock, buyers]).toEqual([20, 60]);
    expect(oversold).toBeGreaterThan(0);
    expect(oversold).toBe(sold - 20);
    expect(demo.redisPort).toBeGreaterThan(0);
    expect(demo.urls).toHaveLength(3);
    expect(await Promise.all(demo.urls.map(accepts))).toEqual([false, false, false]);
  });

  it('npm start runs three instances on one Redis until it gets a signal', async () => {
    const start = npm('start');
    await start.prints(/Ctrl-C/);
    const [first, second, third] = start.urls;
    const post = (url: string, body?: URLSearchParams) => fetch(url, { method: 'POST', ...(body && { body }) });
    expect((await post(`${first}/goods/1/restock`, new URLSearchParams({ amount: '2' }))).status).toBe(201);
    expect(await (await post(`${second}/goods/1/buy`)).json()).toEqual({ id: 1, left: 1 });
    expect(await (await fetch(`${third}/goods/1`)).json()).toEqual({ id: 1, left: 1, sold: 1, lock: null });
    await start.prints(/Report by the instance on port \d+: goods 1: 1 sold, 1 left/);
    start.signal('SIGINT');
    await start.ended;
    expect(start.output).toMatch(/Stopped\./);
    expect(start.output.match(/Report by .*: goods 1:/g)).toHaveLength(1);
    expect(await Promise.all([first, second, third].map((url) => accepts(url)))).toEqual([false, false, false]);
  });

  it('no instance outlives a killed launcher', async () => {
    const start = node('start.js', { REDIS_URL: testRedisUrl() });
    await start.prints(/Ctrl-C/);
    const { urls } = start;
    expect(await accepts(urls[0])).toBe(true);
    start.kill('SIGKILL');
    await Promise.all(urls.map(untilClosed));
  });

  it('npm start stops with its npm, which passes on no signal', async () => {
    const start = npm('start');
    await start.prints(/Ctrl-C/);
    start.kill('SIGTERM');
    await Promise.all(start.urls.map(untilClosed));
    await start.ended;
    expect(start.output).toMatch(/Stopped\./);
  });

  it('without Redis, start runs one instance and prints what that cannot show', async () => {
    const start = node('start.js', noRedis());
    await start.prints(/Ctrl-C/);
    expect(start.output).toMatch(/the memory store excludes no other process/);
    expect(new Set(start.urls).size).toBe(1);
    start.kill('SIGTERM');
    expect(await start.ended).toBe(0);
  });

  it('without Redis, demo fails and prints what it tried', async () => {
    const demo = node('demo.js', noRedis());
    expect(await demo.ended).toBe(1);
    expect(demo.output).toMatch(/Docker: .*\n.*PATH: .*\n.*packages: /);
    expect(demo.output).toMatch(/can prove nothing/);
  });

  it('an unavailable Redis in REDIS_URL is an error', async () => {
    const start = node('start.js', { REDIS_URL: 'redis://127.0.0.1:1' });
    expect(await start.ended).toBe(1);
    expect(start.output).toMatch(/REDIS_URL: connect ECONNREFUSED/);
  });
});
