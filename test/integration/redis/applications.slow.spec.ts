import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { RedisLockModuleOptions } from 'nestjs-redis-lock';
import { type RedisServer, startRedis } from '../../support/redis/index.js';

const support = resolve(__dirname, '../../support');

let server: RedisServer;
let admin: Redis;
let folder: string;

beforeAll(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
  folder = await realpath(await mkdtemp(join(tmpdir(), 'nestjs-redis-lock-applications-')));
});
beforeEach(() => admin.flushall());
afterAll(async () => {
  admin.disconnect();
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

interface Report {
  readonly warnings: readonly string[];
  readonly key: string;
}

/** Starts an application of a package by that name, in a process of its own, and ends it when it has locked. */
async function run(name: string | undefined, options: RedisLockModuleOptions = {}): Promise<Report> {
  const root = join(folder, name ?? 'unnamed');
  await mkdir(join(root, 'dist'), { recursive: true });
  await writeFile(join(root, 'package.json'), JSON.stringify({ name }));
  // A file without a name, as builds leave it beside ES modules, is none of the application.
  await writeFile(join(root, 'dist/package.json'), JSON.stringify({ type: 'module' }));
  const main = join(root, 'dist/main.js');
  await writeFile(main, `await import(${JSON.stringify(join(support, 'application-worker.ts'))});\n`);
  const execArgv = ['--import', join(support, 'typescript-hooks.mjs')];
  const child = fork(main, [JSON.stringify({ redis: server.url, ...options })], { execArgv });
  const exited = once(child, 'exit');
  const [report] = (await Promise.race([once(child, 'message'), exited.then(() => [undefined])])) as [Report];
  child.kill('SIGKILL');
  await exited;
  if (report === undefined) throw new Error('the application has ended without a report');
  return report;
}

describe('two applications on one Redis', () => {
  it('that have the defaults are warned of each other', async () => {
    expect(await run('shop')).toEqual({ warnings: [], key: '{lock_goods}:1' });
    expect((await run('billing')).warnings).toEqual([
      'The application shop uses the same Redis as this one, billing, with the same prefix and no namespace: a lock ' +
        "of one keeps out the other. Set the option namespace, such as namespace: 'shop': to two values to keep them " +
        'apart, or to one value if they are to share their locks.',
    ]);
    expect((await run('shop')).warnings).toEqual([expect.stringMatching(/^The application billing uses/)]);
    expect(await admin.pttl('{lock_}|application')).toBeGreaterThan(6 * 24 * 3600 * 1000);
  });

  it('of one name are instances of one application', async () => {
    expect((await run('shop')).warnings).toEqual([]);
    expect((await run('shop')).warnings).toEqual([]);
  });

  it('are not warned if one of them has chosen its keys, or is not to look', async () => {
    await run('shop');
    expect(await run('billing', { namespace: 'billing' })).toEqual({ warnings: [], key: '{billing:lock_goods}:1' });
    expect((await run('billing', { prefix: 'lock_' })).warnings).toEqual([]);
    expect((await run('billing', { preflight: 'off' })).warnings).toEqual([]);
    expect(await admin.get('{lock_}|application')).toBe('shop');
  });

  it('are not warned if a name is not known, or is none', async () => {
    await run('shop');
    expect((await run(undefined)).warnings).toEqual([]);
    await admin.set('{lock_}|application', 'evil\n[Nest] all is well');
    expect((await run('billing')).warnings).toEqual([]);
  });

  it('lock without the permission to look', async () => {
    const may = ['+eval', '+evalsha', '+info', '+time', '+exists', '+set', '+get', '+del', '+pttl', '+pexpire'];
    await admin.call('ACL', 'SETUSER', 'narrow', 'on', '>secret', '~{lock_goods}*', '~{lock_}|fence', ...may);
    await admin.set('{lock_}|application', 'shop');
    const { port, hostname } = new URL(server.url);
    const redis = `redis://narrow:secret@${hostname}:${port}`;
    expect((await run('billing', { redis, preflight: 'warn' })).key).toBe('{lock_goods}:1');
    expect(await admin.get('{lock_}|application')).toBe('shop');
  });
});
