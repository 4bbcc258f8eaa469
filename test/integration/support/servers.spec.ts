import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually } from '../../support/async.js';
import { WallClock } from '../../support/server-clock/wall-clock.js';
import { RedisProxy } from '../../support/proxy.js';
import { GuardedProcess } from '../../support/redis/guardian.js';
import { RedisNotFoundError, resolveRedis, startRedis, type RedisServer } from '../../support/redis/index.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';

const ROOT = join(__dirname, '../../..');

const once1 = { maxRetriesPerRequest: 0, retryStrategy: () => null, protocol: 2 } as const;

function open(url: string): Redis {
  return new Redis(url, once1).on('error', () => undefined);
}

/** `disconnect` of an ended client would leave ioredis' timer of 2 s. */
function shut(client: Redis): void {
  if (client.status !== 'end') client.disconnect();
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('the resolver', () => {
  it('never uses another server if the named one does not reply', async () => {
    const env = { ...process.env, REDIS_URL: 'redis://127.0.0.1:1' };
    await expect(resolveRedis({ env })).rejects.toThrow(/REDIS_URL: .*ECONNREFUSED[\s\S]*apt-get install redis-server/);
    await expect(resolveRedis({ local: true, env: { ...process.env, REDIS_SERVER_BIN: '/none' } })).rejects.toThrow(
      /REDIS_SERVER_BIN: .*ENOENT/,
    );
  });

  it('uses the server that REDIS_URL names, and does not stop it', async () => {
    const server = await startRedis({ env: { REDIS_URL: testRedisUrl() } });
    expect(server.description).toContain('REDIS_URL');
    await expect(server.kill()).rejects.toThrow('local: true');
    await server.stop();
    const client = open(testRedisUrl());
    await expect(client.ping()).resolves.toBe('PONG');
    shut(client);
  });

  it('names everything that it tried in its error', async () => {
    const env = { DOCKER_HOST: 'tcp://127.0.0.1:1', PATH: '', XDG_CACHE_HOME: '/dev/null', HOME: '/dev/null' };
    const error: Error = await resolveRedis({ env: { ...env, REDIS_SERVER_BIN: '/none' } }).then(
      () => new Error('found one'),
      (reason) => reason,
    );
    expect(error).toBeInstanceOf(RedisNotFoundError);
    expect(error.message).toMatch(/Docker: no engine replies \(127\.0\.0\.1:1: [\s\S]*REDIS_SERVER_BIN: /);
  });
});

describe('a script that needs a server', () => {
  const find = (env: NodeJS.ProcessEnv) =>
    spawnSync(process.execPath, ['test/support/find-redis.mjs'], { env, encoding: 'utf8', cwd: ROOT });

  it('names it before it builds anything', () => {
    const { status, stdout } = find(process.env);
    expect(stdout).toMatch(/^Redis: \S+ \d+\.\d+\.\d+ \(.*\)\n$/);
    expect(status).toBe(0);
  });

  it('says before it builds anything why there is none', () => {
    const { status, stderr } = find({ ...process.env, REDIS_SERVER_BIN: '/none' });
    expect(stderr).toMatch(/^No Redis for this run\. Tried:\n {2}- REDIS_SERVER_BIN: .*ENOENT/);
    expect(status).toBe(1);
  });

  it('finds it first', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const building = Object.entries(scripts).filter(([, script]) => script.includes('npm run build && '));
    const others = building.filter(([, script]) => !script.startsWith('node test/support/find-redis.mjs && '));
    expect(building.map(([name]) => name)).toEqual(expect.arrayContaining(['bench', 'bench:timeline', 'test:recipes']));
    // Loading the package needs no Redis.
    expect(others.map(([name]) => name)).toEqual(['bench:load']);
  });
});

describe('a local server', () => {
  let server: RedisServer;
  beforeAll(async () => void (server = await startRedis({ local: true })));
  afterAll(() => server.stop());

  it('does not reply while paused, and replies after that', async () => {
    const client = open(server.url);
    await client.ping();
    server.pause();
    const answer = client.ping();
    await expect(Promise.race([answer, sleep(100, 'silence')])).resolves.toBe('silence');
    server.resume();
    await expect(answer).resolves.toBe('PONG');
    shut(client);
  });

  it('restarts empty on the same port after a kill', async () => {
    const { port } = server;
    const before = open(server.url);
    await before.set('a', '1');
    await server.kill();
    await expect(before.ping()).rejects.toThrow(/closed|ECONN/i);
    await server.restart();
    expect(server.port).toBe(port);
    const after = open(server.url);
    await expect(after.exists('a')).resolves.toBe(0);
    shut(after);
  });

  it('is never mistaken for another server on its port', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'redis-impostor-'));
    const binary = join(folder, 'redis-server');
    // It never listens, and lives long enough for another server to reply.
    await writeFile(binary, '#!/bin/sh\n[ "$1" = --version ] && echo v=7.0.0 && exit\nexec sleep 0.3\n', {
      mode: 0o755,
    });
    const env = { ...process.env, REDIS_SERVER_BIN: binary };
    await expect(startRedis({ local: true, env, port: server.port })).rejects.toThrow(/ended at once/);
    await rm(folder, { recursive: true });
  });

  it('keeps its runner alive until it has ended, if the runner waits for that', async () => {
    const hooks = pathToFileURL(join(__dirname, '../../support/typescript-hooks.mjs')).href;
    const servers = pathToFileURL(join(__dirname, '../../support/redis/index.ts')).href;
    const script = `
      import { startRedis } from '${servers}';
      const server = await startRedis({ local: true });
      await server.kill();
      await server.restart();
      await server.stop();`;
    const runner = spawn(process.execPath, ['--import', hooks, '--input-type=module', '-e', script]);
    // 13: the event loop was empty, and the script still waited.
    await expect(once(runner, 'exit')).resolves.toEqual([0, null]);
  }, 20_000);

  it('ends with a runner that was killed by SIGKILL', async () => {
    // The guardian must notice. Any process that holds its pipe and is killed can be the runner.
    const script = `
      const { spawn } = require('node:child_process');
      const [guardian, ...command] = JSON.parse(process.argv[1]);
      const child = spawn(process.execPath, ['-e', guardian, '--', ...command],
        { detached: true, stdio: ['pipe', 'inherit', 'inherit'] });
      setInterval(() => child.pid, 1000);`;
    const command = ['/bin/sh', '-c', 'echo $$; exec sleep 60'];
    const runner = spawn(process.execPath, ['-e', script, JSON.stringify([GuardedProcess.script, '{}', ...command])]);
    const [first] = await once(runner.stdout, 'data');
    const pid = Number(String(first).trim());
    expect(isAlive(pid)).toBe(true);
    runner.kill('SIGKILL');
    await eventually('the guarded process has ended', () => !isAlive(pid));
  });
});

describe('a controlled server clock', () => {
  it('is set forward and back while the server runs, and keys expire by it', async () => {
    const clock = await WallClock.create();
    const server = await startRedis({ local: true, variables: clock.variables });
    const client = open(server.url);
    const aheadS = async (): Promise<number> => Math.round((await client.time())[0] - Date.now() / 1_000);
    expect(Math.abs(await aheadS())).toBeLessThan(60);
    await client.set('a', '1', 'PX', 60_000);
    clock.runAhead(120_000);
    expect(await aheadS()).toBeGreaterThan(60);
    await expect(client.exists('a')).resolves.toBe(0);
    clock.runAhead(-120_000);
    expect(await aheadS()).toBeLessThan(-60);
    shut(client);
    await server.stop();
  });
});

describe('the proxy', () => {
  let proxy: RedisProxy;
  let client: Redis;
  let key: string;
  beforeEach(async () => {
    key = uniquePrefix();
    proxy = await RedisProxy.start(testRedisUrl());
    client = open(proxy.url);
    await client.ping();
  });
  afterEach(async () => {
    shut(client);
    await proxy.close();
  });

  const silence = (answer: Promise<unknown>) =>
    expect(Promise.race([answer, sleep(60, 'silence')])).resolves.toBe('silence');

  it.each(['requests', 'replies'] as const)('holds and resumes %s', async (direction) => {
    proxy.hold(direction);
    const answers = Promise.all([client.incr(key), client.incr(key)]);
    await silence(answers);
    const direct = open(testRedisUrl());
    await expect(direct.get(key)).resolves.toBe(direction === 'requests' ? null : '2');
    proxy.resume(direction);
    await expect(answers).resolves.toEqual([1, 2]);
    await direct.del(key);
    shut(direct);
  });

  it('drops replies, so that only Redis knows the effect', async () => {
    proxy.drop('replies');
    const answer = client.set(key, '1', 'PX', 1_000).catch((error: Error) => error);
    await silence(answer);
    proxy.reset();
    await expect(answer).resolves.toBeInstanceOf(Error);
    const direct = open(testRedisUrl());
    await expect(direct.get(key)).resolves.toBe('1');
    shut(direct);
  });

  it('delays one direction', async () => {
    proxy.delay('requests', 80);
    const start = performance.now();
    await client.ping();
    expect(performance.now() - start).toBeGreaterThan(75);
  });

  it('drops and delays what subscribed connections receive, and nothing else', async () => {
    const subscriber = open(proxy.url);
    const received: string[] = [];
    let passing = '';
    subscriber.on('message', (_, message) => received.push(message));
    await subscriber.subscribe(key);
    proxy.observer = (direction, chunk) => (passing += direction === 'replies' ? chunk.toString() : '');
    proxy.drop('messages');
    await client.publish(key, 'dropped');
    await eventually('the message reaches the proxy', () => passing.includes('dropped'));
    proxy.resume('messages');
    proxy.delay('messages', 80);
    const start = performance.now();
    await client.publish(key, 'late');
    await eventually('a message arrives', () => received.length > 0);
    expect(performance.now() - start).toBeGreaterThan(75);
    expect(received).toEqual(['late']);
    shut(subscriber);
  });

  it('refuses new connections and keeps present ones', async () => {
    await proxy.refuseConnections();
    const socket = connect(proxy.port, '127.0.0.1');
    const [error] = await once(socket, 'error');
    expect(error.code).toBe('ECONNREFUSED');
    await expect(client.ping()).resolves.toBe('PONG');
    await proxy.acceptConnections();
    const late = open(proxy.url);
    await expect(late.ping()).resolves.toBe('PONG');
    shut(late);
  });

  it('connects to another server and cuts connections to the previous one', async () => {
    const other = await startRedis({ local: true });
    const direct = open(other.url);
    await direct.set(key, 'there');
    proxy.leadTo(testRedisUrl());
    await expect(client.get(key)).resolves.toBeNull();
    proxy.leadTo(other.url);
    await eventually('the client is closed', () => client.status === 'end');
    const led = open(proxy.url);
    await expect(led.get(key)).resolves.toBe('there');
    for (const one of [led, direct]) shut(one);
    await other.stop();
  });

  it('closes one half of a connection', async () => {
    const socket = connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen: true });
    await once(socket, 'connect');
    await eventually('the proxy has two connections', () => proxy.connectionCount === 2);
    socket.resume();
    const ended = once(socket, 'end');
    proxy.halfClose('client');
    await ended;
    expect(socket.writable).toBe(true);
    socket.destroy();
  });

  it('replies to refused commands with the given error, in pipeline order', async () => {
    proxy.refuseCommands(['EVALSHA', 'script'], "-ERR unknown command 'EVALSHA'");
    const results = await client.pipeline().incr(key).evalsha('0'.repeat(40), 0).del(key).exec();
    expect(results?.map(([error, value]) => error?.message ?? value)).toEqual([
      1,
      expect.stringContaining("ERR unknown command 'EVALSHA'"),
      1,
    ]);
    await expect(client.script('LOAD', 'return 1')).rejects.toThrow('ERR unknown command');
  });

  it('reads requests that arrive in pieces', async () => {
    const socket = connect(proxy.port, '127.0.0.1');
    for (const piece of ['*2\r\n$4\r\nEC', 'HO\r\n$2\r\nh', 'i\r\n*1\r\n$4\r\nPI', 'NG\r\n']) {
      socket.write(piece);
      await sleep(10);
    }
    let reply = '';
    socket.on('data', (chunk: Buffer) => (reply += chunk.toString()));
    await eventually('both replies have arrived', () => reply === '$2\r\nhi\r\n+PONG\r\n');
    socket.destroy();
  });

  it('passes each chunk to the observer', async () => {
    const seen: string[] = [];
    proxy.observer = (direction, chunk) => seen.push(`${direction} ${chunk.toString().split('\r\n').at(-2)}`);
    await client.echo('hello');
    expect(seen).toEqual(['requests hello', 'replies hello']);
  });
});
