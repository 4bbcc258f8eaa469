import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../support/async.js';
import { freePort } from '../support/redis/local-server.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { accepts, root, Script, untilClosed } from './script.js';

const compiled = join(root, '.cache/sample/sample/flash-sale/src/main.js');

describe('the flash sale', () => {
  let folder: string;

  const npm = (...args: string[]) => Script.run('npm', args);
  const runScript = (name: string, env: NodeJS.ProcessEnv) =>
    Script.run(process.execPath, [join(root, 'sample/flash-sale/run.mjs'), name], env);
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

  afterEach(() => Script.killAll());

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
    expect(demo.output).toMatch(
      /^ {2}The sale with the lock takes longer: 20 payments of 25 ms, one after another\.$/m,
    );
    expect(demo.redisPort).toBeGreaterThan(0);
    expect(demo.urls).toHaveLength(3);
    expect(await Promise.all(demo.urls.map(accepts))).toEqual([false, false, false]);
  });

  it('npm start runs three instances on one Redis until it gets a signal', async () => {
    const start = npm('start');
    await start.prints(/Ctrl-C/);
    const [first, second, third] = start.urls;
    const post = (url: string, body?: URLSearchParams) => fetch(url, { method: 'POST', ...(body && { body }) });
    expect((await post(`${first}/goods/11/restock`, new URLSearchParams({ amount: '2' }))).status).toBe(201);
    expect(await (await post(`${second}/goods/11/buy`)).json()).toEqual({ id: 11, left: 1 });
    expect(await (await fetch(`${third}/goods/11`)).json()).toEqual({ id: 11, left: 1, sold: 1, lock: null });
    await start.prints(/Report by the instance on port \d+: goods 11: 1 sold, 1 left/);
    expect((await fetch(`${second}/goods/11`, { method: 'DELETE' })).status).toBe(204);
    const restocked = await post(`${first}/goods/11/restock`, new URLSearchParams({ amount: '2' }));
    expect(await restocked.json()).toEqual({ id: 11, left: 2, sold: 0 });
    start.signal('SIGINT');
    await start.ended;
    expect(start.output).toMatch(/Stopped\./);
    expect(start.output.match(/Report by .*: goods 11:/g)).toHaveLength(1);
    // No instance prints anything before the addresses.
    expect(start.output.split('Ctrl-C')[0]).not.toMatch(/\[port|\[Cron\]/);
    expect(await Promise.all([first, second, third].map((url) => accepts(url)))).toEqual([false, false, false]);
  });

  it('no instance outlives a killed launcher', async () => {
    const start = runScript('start', { REDIS_URL: testRedisUrl() });
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
    const start = runScript('start', noRedis());
    await start.prints(/Ctrl-C/);
    expect(start.output).toMatch(/^Loading the flash sale …\n/);
    expect(start.output).toMatch(/Starting Redis … trying Docker\n[^]*no Docker engine[^\n]*, trying PATH\n/);
    expect(start.output).toMatch(/the memory store excludes no other process/);
    expect(new Set(start.urls).size).toBe(1);
    start.kill('SIGTERM');
    expect(await start.ended).toBe(0);
  });

  it('without Redis, demo fails and prints what it tried', async () => {
    const demo = runScript('demo', noRedis());
    expect(await demo.ended).toBe(1);
    expect(demo.output).toMatch(/Docker: .*\n.*PATH: .*\n.*packages: /);
    expect(demo.output).toMatch(/can prove nothing/);
  });

  it('an unavailable Redis in REDIS_URL is an error', async () => {
    const start = runScript('start', { REDIS_URL: 'redis://127.0.0.1:1' });
    expect(await start.ended).toBe(1);
    expect(start.output).toMatch(/REDIS_URL: connect ECONNREFUSED/);
  });

  it('prints what to do if the packages are not installed', async () => {
    for (const file of ['sample/flash-sale/run.mjs', 'test/support/typescript-hooks.mjs']) {
      mkdirSync(join(folder, dirname(file)), { recursive: true });
      copyFileSync(join(root, file), join(folder, file));
    }
    const start = Script.run(process.execPath, [join(folder, 'sample/flash-sale/run.mjs'), 'start']);
    expect(await start.ended).toBe(1);
    expect(start.output).toMatch(/Run npm ci first\./);
  });

  it('reports an instance that crashes, and ends when none is left', async () => {
    const start = runScript('start', { REDIS_URL: testRedisUrl() });
    await start.prints(/Ctrl-C/);
    const [first, second, third] = start.urls;
    const [firstPid, secondPid, thirdPid] = start.pids;
    process.kill(thirdPid, 'SIGKILL');
    await start.prints(new RegExp(`port ${new URL(third).port} has ended \\(SIGKILL\\)`));
    expect(await Promise.all([first, second, third].map(accepts))).toEqual([true, true, false]);
    process.kill(firstPid, 'SIGKILL');
    process.kill(secondPid, 'SIGKILL');
    expect(await start.ended).toBe(1);
    expect(start.output).toMatch(/No instance is left\./);
  });

  it('nest build makes an application that runs by itself, with its page', async () => {
    const build = Script.run('npx', ['--yes', '--package=@nestjs/cli@12.0.8', 'nest', 'build']);
    expect({ exit: await build.ended, output: build.output }).toMatchObject({ exit: 0 });
    const port = await freePort();
    Script.run(process.execPath, [compiled], { STORE: 'memory', PORT: String(port), INSTANCES: '' });
    const url = `http://127.0.0.1:${port}`;
    await eventually('the application accepts requests', () => accepts(url));
    expect(await (await fetch(url)).text()).toContain('<h1>Flash sale</h1>');
    expect((await fetch(`${url}/page.js`)).status).toBe(200);
    expect((await fetch(`${url}/locks`)).status).toBe(200);
  });
});
