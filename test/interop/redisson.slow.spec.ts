import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisson } from 'nestjs-redis-lock/redisson';
import { startRedis, type RedisServer } from '../support/redis/index.js';
import { eventually, RedisLocks } from '../support/redis-locks.js';
import { buildJava } from './maven.js';
import { missing, onJava, say, wakeUpMs, WOKEN_WITHIN_MS } from './on-java.js';
import { Peer } from './peer.js';

const NAME = 'account-1';
const CHANNEL = 'redisson_lock__channel:{account-1}';

let server: RedisServer;
let admin: Redis;
const peers: Peer[] = [];

beforeAll(async () => {
  if (missing === undefined) await buildJava();
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
});
afterEach(async () => {
  await Promise.all(peers.splice(0).map((peer) => peer.kill()));
  await admin.flushall();
});
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

async function started<T extends readonly Promise<Peer>[]>(...starting: T) {
  const all = await Promise.all(starting);
  peers.push(...all);
  return all as { [K in keyof T]: Peer };
}

async function listeners(channel = CHANNEL): Promise<number> {
  return ((await admin.pubsub('NUMSUB', channel)) as [string, number])[1];
}

describe('redisson() beside Redisson', () => {
  it(
    'loses no update of a counter by a JVM and two Node processes',
    onJava(async () => {
      const all = await started(Peer.java(server.url), Peer.node(server.url), Peer.node(server.url));
      const startedAt = performance.now();
      const ends = all.map(async (peer) => {
        await peer.call('count', NAME, 'counter', '500');
        return Math.round(performance.now() - startedAt);
      });
      const tookMs = await Promise.all(ends);
      say(`500 increments each took a JVM, Node and Node ${tookMs.join(', ')} ms`);
      expect(await admin.get('counter')).toBe('1500');
      expect(await admin.exists(NAME)).toBe(0);
    }),
  );

  it(
    'gives a JVM its share beside five busy callers',
    onJava(async () => {
      const [java] = await started(Peer.java(server.url));
      const running = new RedisLocks();
      const locks = running.start({ redis: server.url, store: redisson(), key: (resource) => resource });
      const over = new AbortController();
      let grants = 0;
      const call = async (): Promise<void> => {
        for (; !over.signal.aborted; grants += 1) await locks.using(NAME, () => sleep(2));
      };
      const calling = [1, 2, 3, 4, 5].map(call);
      await java.call('count', NAME, 'counter', '100');
      over.abort();
      await Promise.all(calling);
      await running.close();
      say(`100 increments of a JVM took as long as ${grants} grants of five callers`);
      expect(grants).toBeLessThan(2_500);
    }),
  );

  it(
    'notifies and is notified, with and without braces in the name',
    onJava(async () => {
      const [java, node] = await started(Peer.java(server.url), Peer.node(server.url));
      const wokenMs: number[] = [];
      for (const [name, channel] of [
        [NAME, CHANNEL],
        ['{accounts}:1', 'redisson_lock__channel:{accounts}:1'],
      ]) {
        const listens = async () => (await listeners(channel)) === 1;
        wokenMs.push(await wakeUpMs(java, node, name, listens), await wakeUpMs(node, java, name, listens));
        await eventually('nobody listens', async () => (await listeners(channel)) === 0);
      }
      say(`woken after ${wokenMs.map((ms) => ms.toFixed(1)).join(', ')} ms (Node, JVM, Node, JVM)`);
      expect(Math.max(...wokenMs)).toBeLessThan(WOKEN_WITHIN_MS);
    }),
  );

  it(
    'gets the lock, or gives it, when the lease of a killed holder is over',
    onJava(async () => {
      const java = (leaseMs?: number) => Peer.java(server.url, leaseMs);
      const node = (leaseMs?: number) => Peer.node(server.url, leaseMs);
      for (const [startVictim, startSurvivor] of [
        [java, node],
        [node, java],
      ]) {
        // The watchdog of either process renews this lease until the process is killed.
        const [victim, survivor] = await started(startVictim(1_500), startSurvivor());
        await victim.call('lock', NAME);
        const granted = survivor.call('lock', NAME);
        await sleep(2_000);
        expect(await admin.pttl(NAME)).toBeGreaterThan(0);
        const killedAt = performance.now();
        await victim.kill();
        await granted;
        const tookMs = performance.now() - killedAt;
        expect(tookMs).toBeGreaterThan(200);
        expect(tookMs).toBeLessThan(2_000);
        await survivor.call('unlock', NAME);
      }
    }),
  );

  it(
    'gets the lock, or gives it, when a lease without renewal is over',
    onJava(async () => {
      const [java, node] = await started(Peer.java(server.url), Peer.node(server.url));
      for (const [holder, waiter] of [
        [java, node],
        [node, java],
      ]) {
        const lockedAt = performance.now();
        await holder.call('lockFor', NAME, '800');
        await waiter.call('lock', NAME);
        expect(performance.now() - lockedAt).toBeGreaterThan(700);
        expect(performance.now() - lockedAt).toBeLessThan(1_500);
        await waiter.call('unlock', NAME);
      }
    }),
  );

  it(
    'lets the JVM acquire after a minimum hold, although no process is left',
    onJava(async () => {
      const [java, node] = await started(Peer.java(server.url), Peer.node(server.url));
      await node.call('lockKept', NAME, '3000');
      const granted = java.call('lock', NAME);
      await eventually('it listens', async () => (await listeners()) === 1);
      await sleep(500);
      await node.call('unlock', NAME);
      expect(await admin.pttl(NAME)).toBeGreaterThan(0);
      await node.kill();
      const killedAt = performance.now();
      await granted;
      // Without a message the lock would be free 30 s later.
      expect(performance.now() - killedAt).toBeLessThan(10_000);
      await java.call('unlock', NAME);
    }),
  );

  it(
    'shares the fencing token of fenced locks',
    onJava(async () => {
      const [java, node] = await started(Peer.java(server.url), Peer.node(server.url));
      const tokens: number[] = [];
      for (const peer of [java, node, node, java, node]) {
        tokens.push(Number(await peer.call('lockFenced', NAME)));
        await peer.call('unlock', NAME);
      }
      expect(tokens).toEqual([1, 2, 3, 4, 5]);
    }),
  );

  it(
    'refuses a ReadWriteLock, and leaves one that entered its lock as it is',
    onJava(async () => {
      const [java, node] = await started(Peer.java(server.url), Peer.node(server.url));
      expect(await java.call('tryWrite', NAME)).toBe('true');
      await expect(node.call('lock', NAME)).rejects.toThrow('ReadWriteLock of Redisson');
      await java.call('unlockWrite', NAME);
      await node.call('lock', NAME);
      // Redisson grants it beside an RLock of its own, too.
      expect(await java.call('tryWrite', NAME)).toBe('true');
      await node.call('unlock', NAME);
      const fields = await admin.hgetall(NAME);
      expect(Object.keys(fields)).toHaveLength(2);
      expect(fields).toMatchObject({ mode: 'write' });
      await java.call('unlockWrite', NAME);
      expect(await admin.exists(NAME)).toBe(0);
    }),
  );

  it(
    'excludes a fair lock, and is excluded by it',
    onJava(async () => {
      const [java, node] = await started(Peer.java(server.url), Peer.node(server.url));
      await node.call('lock', NAME);
      expect(await java.call('tryFair', NAME)).toBe('false');
      await node.call('unlock', NAME);
      expect(await java.call('tryFair', NAME)).toBe('true');
      const granted = node.call('lock', NAME);
      await eventually('it listens', async () => (await listeners()) === 1);
      expect(await admin.hlen(NAME)).toBe(1);
      await java.call('unlockFair', NAME);
      await granted;
      await node.call('unlock', NAME);
    }),
  );

  it(
    'loses a lock that Redisson ends by force',
    onJava(async () => {
      const [java, node] = await started(Peer.java(server.url), Peer.node(server.url));
      await node.call('lock', NAME);
      expect(await java.call('isLocked', NAME)).toBe('true');
      expect(await java.call('isMine', NAME)).toBe('false 0');
      const remainingMs = Number(await java.call('remaining', NAME));
      expect(remainingMs).toBeGreaterThan(20_000);
      expect(remainingMs).toBeLessThanOrEqual(30_000);
      await expect(java.call('unlock', NAME)).rejects.toThrow('IllegalMonitorState');
      expect(await java.call('forceUnlock', NAME)).toBe('true');
      await java.call('lock', NAME);
      // The lock is the JVM's now. Our release must not end it.
      await node.call('unlock', NAME);
      expect(await java.call('isLocked', NAME)).toBe('true');
      await java.call('unlock', NAME);
      expect(await admin.exists(NAME)).toBe(0);
    }),
  );
});
