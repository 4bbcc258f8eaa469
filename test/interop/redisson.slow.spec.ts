import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect } from '@jest/globals';
import { redisson } from 'nestjs-redis-lock/redisson';
import { eventually } from '../support/redis-locks.js';
import { buildJava, REDISSON_VERSIONS } from './maven.js';
import { missing, itOnJava, wakeUp } from './on-java.js';
import { Peer } from './peer.js';
import { forTests } from '../support/for-tests.js';
import { Contention } from '../support/contention.js';

const NAME = 'account-1';
const CHANNEL = 'redisson_lock__channel:{account-1}';

const here = forTests(new Contention());
const peers: Peer[] = [];

afterEach(() => Promise.all(peers.splice(0).map((peer) => peer.kill())));

async function started<T extends readonly Promise<Peer>[]>(...starting: T) {
  const all = await Promise.all(starting);
  peers.push(...all);
  return all as { [K in keyof T]: Peer };
}

async function listeners(channel = CHANNEL): Promise<number> {
  return ((await here.admin.pubsub('NUMSUB', channel)) as [string, number])[1];
}

describe.each(REDISSON_VERSIONS)('redisson() beside Redisson %s', (version) => {
  const startJava = (leaseMs?: number): Promise<Peer> => Peer.java(here.server.url, leaseMs, version);

  beforeAll(async () => {
    if (missing === undefined) await buildJava(version);
  });

  itOnJava('loses no update of a counter by a JVM and two Node processes', async () => {
    const all = await started(startJava(), Peer.node(here.server.url), Peer.node(here.server.url));
    await Promise.all(all.map((peer) => peer.call('count', NAME, 'counter', '500')));
    expect(await here.admin.get('counter')).toBe('1500');
    expect(await here.admin.exists(NAME)).toBe(0);
  });

  itOnJava('does not starve a JVM beside five busy callers', async () => {
    const [java] = await started(startJava());
    const locks = here.instance({ store: redisson(), key: (resource) => resource });
    const over = new AbortController();
    const call = async (): Promise<void> => {
      while (!over.signal.aborted) await locks.using(NAME, () => sleep(2));
    };
    const calling = [1, 2, 3, 4, 5].map(call);
    await java.call('count', NAME, 'counter', '100');
    over.abort();
    await Promise.all(calling);
    expect(await here.admin.get('counter')).toBe('100');
  });

  itOnJava('notifies and is notified, with and without braces in the name', async () => {
    const [java, node] = await started(startJava(), Peer.node(here.server.url));
    for (const [name, channel] of [
      [NAME, CHANNEL],
      ['{accounts}:1', 'redisson_lock__channel:{accounts}:1'],
    ]) {
      const listens = async () => (await listeners(channel)) === 1;
      await wakeUp(java, node, name, listens);
      await wakeUp(node, java, name, listens);
      await eventually('nobody listens', async () => (await listeners(channel)) === 0);
    }
    expect(await here.admin.exists(NAME)).toBe(0);
  });

  itOnJava('gets the lock, or gives it, when the lease of a killed holder is over', async () => {
    const node = (leaseMs?: number) => Peer.node(here.server.url, leaseMs);
    for (const [startVictim, startSurvivor] of [
      [startJava, node],
      [node, startJava],
    ]) {
      const [victim, survivor] = await started(startVictim(1_500), startSurvivor());
      await victim.call('lock', NAME);
      const granted = survivor.call('lock', NAME);
      await victim.kill();
      await granted;
      expect(await here.admin.exists(NAME)).toBe(1);
      await survivor.call('unlock', NAME);
    }
  });

  itOnJava('lets the JVM acquire after a minimum hold, although no process is left', async () => {
    const [java, node] = await started(startJava(), Peer.node(here.server.url));
    await node.call('lockKept', NAME, '10000');
    const granted = java.call('lock', NAME);
    await eventually('it listens', async () => (await listeners()) === 1);
    await node.call('unlock', NAME);
    expect(await here.admin.pttl(NAME)).toBeGreaterThan(0);
    await node.kill();
    await granted;
    await java.call('unlock', NAME);
  });

  itOnJava('shares the fencing token of fenced locks', async () => {
    const [java, node] = await started(startJava(), Peer.node(here.server.url));
    const tokens: number[] = [];
    for (const peer of [java, node, node, java, node]) {
      tokens.push(Number(await peer.call('lockFenced', NAME)));
      await peer.call('unlock', NAME);
    }
    expect(tokens).toEqual([1, 2, 3, 4, 5]);
  });

  itOnJava('refuses a ReadWriteLock, and leaves one that entered its lock as it is', async () => {
    const [java, node] = await started(startJava(), Peer.node(here.server.url));
    expect(await java.call('tryWrite', NAME)).toBe('true');
    await expect(node.call('lock', NAME)).rejects.toThrow('ReadWriteLock of Redisson');
    await java.call('unlockWrite', NAME);
    await node.call('lock', NAME);
    // Redisson grants it beside an RLock of its own, too.
    expect(await java.call('tryWrite', NAME)).toBe('true');
    await node.call('unlock', NAME);
    const fields = await here.admin.hgetall(NAME);
    expect(Object.keys(fields)).toHaveLength(2);
    expect(fields).toMatchObject({ mode: 'write' });
    await java.call('unlockWrite', NAME);
    expect(await here.admin.exists(NAME)).toBe(0);
  });

  itOnJava('excludes a fair lock, and is excluded by it', async () => {
    const [java, node] = await started(startJava(), Peer.node(here.server.url));
    await node.call('lock', NAME);
    expect(await java.call('tryFair', NAME)).toBe('false');
    await node.call('unlock', NAME);
    expect(await java.call('tryFair', NAME)).toBe('true');
    const granted = node.call('lock', NAME);
    await eventually('it listens', async () => (await listeners()) === 1);
    expect(await here.admin.hlen(NAME)).toBe(1);
    await java.call('unlockFair', NAME);
    await granted;
    await node.call('unlock', NAME);
  });

  itOnJava('loses a lock that Redisson ends by force', async () => {
    const [java, node] = await started(startJava(), Peer.node(here.server.url));
    await node.call('lock', NAME);
    expect(await java.call('isLocked', NAME)).toBe('true');
    expect(await java.call('isMine', NAME)).toBe('false 0');
    const remainingMs = Number(await java.call('remaining', NAME));
    expect(remainingMs).toBeGreaterThan(0);
    expect(remainingMs).toBeLessThanOrEqual(30_000);
    await expect(java.call('unlock', NAME)).rejects.toThrow('IllegalMonitorState');
    expect(await java.call('forceUnlock', NAME)).toBe('true');
    await java.call('lock', NAME);
    // The lock is the JVM's now. Our release must not end it.
    await node.call('unlock', NAME);
    expect(await java.call('isLocked', NAME)).toBe('true');
    await java.call('unlock', NAME);
    expect(await here.admin.exists(NAME)).toBe(0);
  });
});
