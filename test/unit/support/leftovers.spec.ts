import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { lockChannels } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { Leftovers, recordTimers } from '../../suites/leftovers.js';
import { recordShortLeases, shortLeases } from '../../suites/short-leases.js';

describe('what a file of tests leaves behind', () => {
  let leftovers: Leftovers;
  beforeEach(() => {
    recordTimers();
    leftovers = new Leftovers();
  });

  it('is nothing after work that has ended', async () => {
    await createTestLocks().using('goods:300', () => undefined);
    const server = createServer().listen(0);
    await once(server, 'listening');
    server.close();
    expect(await leftovers.found()).toEqual([]);
  });

  it('is a lock that is still held, by the timer of the watchdog', async () => {
    const lock = await createTestLocks().acquire('goods:300');
    expect(await leftovers.found()).toEqual([
      expect.stringMatching(/^a timer of 100 ms, from lib\/core\/lease\/watchdog\.ts/),
    ]);
    await lock.release();
    expect(await leftovers.found()).toEqual([]);
  });

  it('is a server, a process, a listener and a subscriber', async () => {
    const server = createServer().listen(0);
    const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'ignore'] });
    const onExit = (): void => undefined;
    process.on('beforeExit', onExit);
    lockChannels.granted.subscribe(onExit);
    try {
      const found = await leftovers.found();
      expect(found).toEqual(expect.arrayContaining(['a listener of beforeExit', 'Server']));
      expect(found).toContain('a subscriber of nestjs-redis-lock:granted');
      expect(found).toContainEqual(expect.stringMatching(/^ChildProcess .*stdin\.resume/));
    } finally {
      lockChannels.granted.unsubscribe(onExit);
      process.off('beforeExit', onExit);
      server.close();
      child.stdin.end();
      await once(child, 'exit');
    }
    expect(await leftovers.found()).toEqual([]);
  });
});

describe('a short lease', () => {
  it('is recorded on the clock of the machine only', async () => {
    recordShortLeases();
    await createTestLocks({ clock: new ManualClock() }).using('goods:300', { ttlMs: 1_000 }, () => undefined);
    await createTestLocks().using('goods:300', { ttlMs: 30_000 }, () => undefined);
    expect(shortLeases()).toEqual([]);
    await createTestLocks().using('goods:300', { ttlMs: 1_000 }, () => undefined);
    const test = expect.getState().currentTestName;
    expect(shortLeases()).toEqual([`a lease of 1000 ms: ${test}`]);
    expect(shortLeases()).toEqual([]);
  });
});
