import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type AddressInfo, createServer } from 'node:net';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-redis-lock';
import { openAdmin } from '../../../lib/cli/open-admin.js';
import { run } from '../../../lib/cli/run.js';
import { FakeTerminal } from '../../support/fake-terminal.js';
import { RedisCluster } from '../../support/redis/cluster.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { freePort } from '../../support/redis/local-server.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

let server: RedisServer;
let admin: Redis;
let running: RedisLocks;
/** The clients of a test, which it does not close itself. */
let clients: Redis[];

beforeAll(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
});
beforeEach(() => {
  running = new RedisLocks();
  clients = [];
});
afterEach(async () => {
  await running.close();
  for (const client of clients) client.disconnect();
});
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

const instance = (identity: string, redis: string = server.url): LockService =>
  running.start({ redis, identity, checks: { server: 'off' } });

/** Runs a command on the server of this file, with the prefix of this test. */
async function cli(
  line: string,
  { terminal = new FakeTerminal(), env = {}, prefix = running.prefix }: CliOptions = {},
): Promise<CliResult> {
  const args = [...line.split(' '), '--prefix', prefix];
  const code = await run(args, { version: '1.2.3', env: { REDIS_URL: server.url, ...env }, terminal, openAdmin });
  return { code, out: terminal.stdout.text, err: terminal.stderr.text };
}

interface CliOptions {
  readonly terminal?: FakeTerminal;
  readonly env?: NodeJS.ProcessEnv;
  readonly prefix?: string;
}

interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
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

/** Two instances: `api-1` holds goods:300, and `api-2` waits for it. Returns the grant that `api-2` waits for. */
async function holdAndWait() {
  const [holder, waiter] = [instance('api-1'), instance('api-2')];
  const lock = await holder.acquire('goods:300');
  const granted = waiter.acquire('goods:300', { waitMs: 60_000 });
  granted.catch(() => undefined);
  await eventually('api-2 waits', async () => (await holder.inspect('goods:300'))?.waiting.length === 1);
  return { holder, waiter, lock, granted };
}

describe('list', () => {
  it('shows held, shared and awaited locks of the prefix', async () => {
    const { holder, waiter, lock } = await holdAndWait();
    await holder.acquire('menu', { mode: 'shared' });
    await waiter.acquire('menu', { mode: 'shared' });
    await waiter.acquire('pool', { permits: 3 });
    const { code, out } = await cli('list');
    expect(code).toBe(0);
    const [titles, goods, menu, pool, ...rest] = out.trimEnd().split('\n');
    expect(titles).toMatch(/^RESOURCE +MODE +HOLDER +HELD FOR +LEASE +TOKEN +WAITING$/);
    expect(goods).toMatch(new RegExp(`^goods:300 +exclusive +api-1 +[\\d.]+ m?s +[\\d.]+ s +${lock.fencingToken} +1$`));
    expect(menu).toMatch(/^menu +shared +api-\d and 1 other +- +[\d.]+ s +- +0$/);
    expect(pool).toMatch(/^pool +1 of 3 permits +api-2 +- +[\d.]+ s +- +0$/);
    expect(rest).toEqual([]);
  });

  it('prints the matching locks as JSON', async () => {
    const locks = instance('api-1');
    for (const name of ['goods:1', 'goods:2', 'order:1']) await locks.acquire(name);
    const { out } = await cli('list --json --match goods:*');
    expect(resourcesIn(out)).toEqual(['goods:1', 'goods:2']);
    expect(objectsIn(out)[0]).toMatchObject({ isHeld: true, mode: 'exclusive', identity: 'api-1', waiting: [] });
  });

  it('knows how long a lock is held', async () => {
    const locks = instance('api-1');
    const serverMs = async (): Promise<number> => {
      const [seconds, micros] = (await admin.time()).map(Number);
      return seconds * 1_000 + micros / 1_000;
    };
    const before = await serverMs();
    await locks.acquire('goods:300');
    const held = await serverMs();
    await eventually('some time has passed', async () => (await serverMs()) > held + 50);
    const [{ heldForMs }] = objectsIn((await cli('list --json')).out);
    expect(heldForMs).toBeGreaterThanOrEqual(50);
    expect(heldForMs).toBeLessThanOrEqual((await serverMs()) - before);
  });

  it('escapes a hostile resource and the value of another system', async () => {
    await instance('api-1').acquire('goods:\u202eevil');
    await admin.set(`{${running.prefix}foreign}`, '\u001b[2Jevil', 'PX', 10_000);
    const { out } = await cli('list');
    expect(out).toContain(String.raw`goods:\u{202e}evil`);
    expect(out).toContain(String.raw`\u{1b}[2Jevil`);
    for (const hostile of ['\u001b', '\u202e']) expect(out).not.toContain(hostile);
  });

  it('finds nothing under another prefix', async () => {
    await instance('api-1').acquire('goods:300');
    const { code, out, err } = await cli('list --match none:*');
    expect({ code, out }).toEqual({ code: 0, out: '' });
    const options = `under --prefix "${running.prefix}" and --hash-tag family`;
    expect(err).toBe(`No lock that matches none:* is held or awaited ${options}.\n`);
  });

  it('lists the locks of a prefix, and names those whose prefix ends with it', async () => {
    const prefix = `shop:${running.prefix}`;
    const locks = running.start({ redis: server.url, prefix });
    const lock = await locks.acquire('goods:300');
    expect(lock.key).toBe(`{shop:${running.prefix}goods}:300`);
    await instance('api-1').acquire('goods:300');
    const { out, err } = await cli('list --json');
    expect(objectsIn(out).map(({ key }) => key)).toEqual([`{${running.prefix}goods}:300`]);
    expect(err).toContain(`Keys such as {shop:${running.prefix}goods}:300 look like locks but are not listed.`);
    const named = await cli('list --json', { prefix });
    expect(objectsIn(named.out).map(({ key }) => key)).toEqual([lock.key]);
    expect(named.err).toBe('');
    expect((await cli('release goods:300 --yes', { prefix })).code).toBe(0);
    expect(await locks.inspect('goods:300')).toBeNull();
  });

  it('names a key that another hash tag makes', async () => {
    const locks = running.start({ redis: server.url, hashTag: 'resource' });
    await locks.acquire('goods:300');
    await locks.acquire('report');
    const { code, out, err } = await cli('list --json');
    expect(code).toBe(0);
    expect(objectsIn(out).map(({ resource }) => resource)).toEqual(['report']);
    expect(err).toContain(`Keys such as {${running.prefix}goods:300} look like locks but are not listed.`);
    expect(await cli('list --hash-tag resource --json')).toMatchObject({ err: '' });
  });

  it('names a key before which a client puts a prefix, and lists it with --key-prefix', async () => {
    clients.push(new Redis(server.url, { keyPrefix: 'app:' }));
    await running.start({ redis: clients[0] }).acquire('goods:300');
    const { out, err } = await cli('list --json');
    expect(out).toBe('');
    expect(err).toContain(`Keys such as app:{${running.prefix}goods}:300 look like locks`);
    const found = await cli('list --json --key-prefix app:');
    expect(objectsIn(found.out)).toMatchObject([{ resource: 'goods:300' }]);
    expect(await cli('release goods:300 --yes --key-prefix app:')).toMatchObject({ code: 0 });
    expect(await cli('inspect goods:300 --key-prefix app:')).toMatchObject({ code: 4 });
  });

  it('refuses an invalid glob', async () => {
    expect(await cli('list --match [a')).toMatchObject({ code: 2, out: '' });
  });
});

describe('inspect', () => {
  it('shows the holder and the queue', async () => {
    const { lock } = await holdAndWait();
    const { code, out } = await cli('inspect goods:300');
    expect(code).toBe(0);
    expect(out).toContain(`  key       {${running.prefix}goods}:300\n  state     held, exclusive\n  holder    api-1\n`);
    expect(out).toContain(`  token     ${lock.fencingToken}\n  waiting   1\n            1. api-2, exclusive\n`);
  });

  it('makes the key as the module does', async () => {
    const locks = running.start({ redis: server.url, hashTag: 'resource' });
    await locks.acquire('goods:300');
    expect((await cli('inspect goods:300')).code).toBe(4);
    const { code, out } = await cli('inspect goods:300 --hash-tag resource --json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ key: `{${running.prefix}goods:300}` });
  });

  it('takes the key itself for a module with a key function', async () => {
    const locks = running.start({ redis: server.url, key: (resource) => `${running.prefix}own/${resource}` });
    await locks.acquire('goods:300');
    const key = `${running.prefix}own/goods:300`;
    const { code, out } = await cli(`inspect --key ${key} --json`);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ resource: key, key });
    expect(await cli(`release --key ${key} --yes`)).toMatchObject({ code: 0 });
    expect(await locks.inspect('goods:300')).toBe(null);
  });

  it('has exit code 4 for a free lock, and names its key', async () => {
    const line = `Nobody holds goods:300 or waits for it. Its key is {${running.prefix}goods}:300.\n`;
    expect(await cli('inspect goods:300')).toEqual({ code: 4, out: '', err: line });
    expect(await cli('inspect goods:300 --json')).toEqual({ code: 4, out: 'null\n', err: '' });
  });

  it('has exit code 2 for a resource that cannot form a key', async () => {
    const { code, err } = await cli('inspect a|b');
    expect(code).toBe(2);
    expect(err).toContain("error: Resource 'a|b' holds '|'");
  });
});

describe('release', () => {
  it('ends the hold that was shown, and the next instance gets the lock', async () => {
    const { lock, granted } = await holdAndWait();
    const terminal = new FakeTerminal(true, ['yes']);
    const { code, out } = await cli('release goods:300', { terminal });
    expect({ code, out }).toEqual({ code: 0, out: 'goods:300 was released. api-1 held it.\n' });
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await eventually('api-1 finds out', () => lock.signal.aborted);
    expect((lock.signal.reason as Error).message).toContain('released by force');
  });

  it('releases nothing for another token', async () => {
    const { holder, lock } = await holdAndWait();
    const { code, err } = await cli(`release goods:300 --yes --if-token ${lock.fencingToken - 1}`);
    expect(code).toBe(4);
    expect(err).toContain(`its token is ${lock.fencingToken}, not`);
    expect(await holder.inspect('goods:300')).toMatchObject({ identity: 'api-1' });
    expect(lock.signal.aborted).toBe(false);
  });

  it('releases all holders of a shared lock', async () => {
    const both = [instance('api-1'), instance('api-2')];
    for (const one of both) await one.acquire('menu', { mode: 'shared' });
    const { code, out } = await cli('release menu --yes --json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ released: true, reason: null, lock: { mode: 'shared' } });
    expect(await both[0].inspect('menu')).toBe(null);
  });

  it('has exit code 4 for a free lock, and 2 without a confirmation', async () => {
    expect(await cli('release goods:300 --yes')).toMatchObject({ code: 4 });
    expect(await cli('release goods:300')).toMatchObject({ code: 2 });
  });
});

describe('a Redis that cannot be used', () => {
  it('is named without the password if nothing listens there', async () => {
    const port = await freePort();
    const { code, out, err } = await cli('list', { env: { REDIS_URL: `redis://u:s3cret@127.0.0.1:${port}` } });
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toContain(`error: Redis cannot be used at redis://***@127.0.0.1:${port}: `);
    expect(err).toContain('ECONNREFUSED');
    expect(err).not.toContain('s3cret');
  });

  it('is named if the password is wrong or missing', async () => {
    await admin.acl('SETUSER', 'guest', 'reset', 'on', '>s3cret', '~*', '&*', '+@all');
    const wrong = await cli('list', { env: { REDIS_URL: server.url.replace('://', '://guest:wr0ng@') } });
    expect(wrong.code).toBe(3);
    expect(wrong.err).toContain('Give the user and the password');
    expect(wrong.err).not.toContain('wr0ng');
    const env = { REDIS_USERNAME: 'guest', REDIS_PASSWORD: 's3cret' };
    expect(await cli('list', { env })).toMatchObject({ code: 0 });
  });

  it('is named if the user may not scan, and inspect still works', async () => {
    await admin.acl('SETUSER', 'guest', 'reset', 'on', '>s3cret', '~*', '&*', '+@all', '-scan');
    const env = { REDIS_USERNAME: 'guest', REDIS_PASSWORD: 's3cret' };
    const { code, err } = await cli('list', { env });
    expect(code).toBe(3);
    expect(err).toContain('docs/permissions.md');
    expect(await cli('watch', { env })).toMatchObject({ code: 3 });
    expect(await cli('inspect goods:300', { env })).toMatchObject({ code: 4 });
  });

  it('is given up after --timeout if it does not reply', async () => {
    const silent = await startRedis({ local: true });
    silent.pause();
    try {
      const { code, err } = await cli(`list --redis ${silent.url} --timeout 300`);
      expect(code).toBe(3);
      expect(err).toContain('within 300 ms');
    } finally {
      silent.resume();
      await silent.stop();
    }
  });

  it.each([
    ['redis-cluster', '', 'At least one of these nodes must be running'],
    ['redis-sentinel', '/m', 'At least one of these Sentinels must be running'],
  ])('is named for %s', async (scheme, path, advice) => {
    const port = await freePort();
    const { code, err } = await cli(`list --redis ${scheme}://u:s3cret@127.0.0.1:${port}${path} --timeout 2000`);
    expect(code).toBe(3);
    expect(err).toContain(`error: Redis cannot be used at ${scheme}://127.0.0.1:${port}${path}: `);
    expect(err).toContain(advice);
    expect(err).not.toContain('s3cret');
  });

  it('is not a cluster', async () => {
    const { code, err } = await cli(`list --redis redis-cluster://127.0.0.1:${server.port} --timeout 2000`);
    expect(code).toBe(3);
    expect(err).toContain('This server is not a cluster: use redis://.');
  });

  it('closes the connection, as one that expects TLS does', async () => {
    const closing = createServer((socket) => socket.on('error', () => undefined).once('data', () => socket.end()));
    await new Promise<void>((resolve) => closing.listen(0, '127.0.0.1', resolve));
    const { port } = closing.address() as AddressInfo;
    try {
      const { code, err } = await cli(`list --redis redis://127.0.0.1:${port} --timeout 500`);
      expect(code).toBe(3);
      expect(err).toContain('Does this server expect rediss://, for TLS?');
    } finally {
      closing.close();
    }
  });

  it.each([
    ['rediss', '', 'redis'],
    ['rediss-cluster', '', 'redis-cluster'],
    ['rediss-sentinel', '/m', 'redis-sentinel'],
  ])('does not speak TLS: %s', async (scheme, path, plain) => {
    const url = `${scheme}://u:s3cret@127.0.0.1:${server.port}${path}`;
    const { code, err } = await cli(`list --redis ${url} --timeout 1000`);
    expect(code).toBe(3);
    expect(err).toMatch(new RegExp(`^error: Redis cannot be used at ${scheme}://(?:\\*{3}@)?127.0.0.1:${server.port}`));
    expect(err).toContain(`TLS may be the reason: does this server expect ${plain}:// in place of ${scheme}://?`);
    expect(err).not.toContain('s3cret');
  });

  it('has no such database', async () => {
    const { code, err } = await cli(`list --redis ${server.url}/99`);
    expect(code).toBe(3);
    expect(err).toContain('DB index is out of range');
  });
});

describe('a cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start({ replicas: false });
  });
  afterAll(() => cluster.close());

  it('is listed on all masters, inspected and released', async () => {
    const locks = running.start({ redis: { nodes: [...cluster.nodes] }, identity: 'api-1', checks: { server: 'off' } });
    const names = Array.from({ length: 12 }, (_, i) => `family${i}:1`);
    await Promise.all(names.map((name) => locks.acquire(name)));
    const option = `--redis redis-cluster://${cluster.nodes.map(({ host, port }) => `${host}:${port}`).join(',')}`;
    const { code, out } = await cli(`list --json ${option}`);
    expect(code).toBe(0);
    expect(resourcesIn(out)).toEqual(names.toSorted());
    expect(await cli(`release family3:1 --yes ${option}`)).toMatchObject({ code: 0 });
    expect(await cli(`inspect family3:1 ${option}`)).toMatchObject({ code: 4 });
  });

  it('is not used by one of its nodes', async () => {
    const [{ host, port }] = cluster.nodes;
    const { code, err } = await cli(`list --redis redis://${host}:${port}`);
    expect(code).toBe(2);
    expect(err).toContain('is a node of a cluster. Name some nodes of the cluster: redis-cluster://host:port.');
  });
});
