import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { SystemClock } from '../../../lib/core/time/clock.js';
import type { ClientListener, ServerClient } from '../../../lib/redis/client-port.js';
import { RedisConnection } from '../../../lib/redis/redis-connection.js';
import { RedisScript } from '../../../lib/redis/redis-script.js';

/** Returns a connection, and the calls of its socket in order. */
function setUp() {
  const steps: string[] = [];
  const record = (step: string) => () => void steps.push(step);
  const socket = { cork: record('cork'), uncork: record('uncork') };
  const client = { status: 'ready', socket, run: async () => steps.push('renewal') };
  const connection = new RedisConnection(client as unknown as ServerClient, new SystemClock(), 1_000);
  return { connection, steps };
}

describe('a corked connection', () => {
  it('sends after the promise jobs that are queued by then', async () => {
    const { connection, steps } = setUp();
    connection.cork();
    connection.cork();
    expect(steps).toEqual(['cork']);
    await Promise.resolve();
    expect(steps).toEqual(['cork', 'uncork']);
  });

  it('sends before a renewal, whose lock may be used by work that blocks the event loop', async () => {
    const { connection, steps } = setUp();
    connection.cork();
    const renewed = new RedisScript({ lua: 'return 1' }, String).runAll(connection, [{ keys: [], args: [] }]);
    expect(steps).toEqual(['cork', 'uncork', 'cork', 'renewal', 'uncork']);
    await renewed;
  });
});

/** Returns a connection whose client a test controls, and what it reports. */
function watched(status: string) {
  const clock = new ManualClock();
  const time = () => Promise.resolve(['1000', '0']);
  let listener: ClientListener = {};
  const watch = (given: ClientListener): (() => void) => {
    listener = given;
    return () => (listener = {});
  };
  const emit = (event: 'ready' | 'close' | 'error', error = new Error('none')): void => listener[event]?.(error);
  const client = { status, send: time, watch, emit };
  const connection = new RedisConnection(client as unknown as ServerClient, clock, 1_000);
  const reports: string[] = [];
  const stop = connection.listen({
    onDisconnected: () => undefined,
    onReconnected: () => undefined,
    onReachable: () => undefined,
    onUnreachable: ({ message }) => reports.push(message),
  });
  return { clock, client, connection, reports, stop };
}

describe('a connection that is not ready', () => {
  it('is reported at once if it is refused, and after the time limit if the client gives up an attempt', async () => {
    const { clock, client, reports, stop } = watched('connecting');
    client.emit('error', new Error('Connection timeout'));
    client.emit('error', Object.assign(new Error('connect ETIMEDOUT'), { code: 'ETIMEDOUT' }));
    await clock.advance(999);
    expect(reports).toEqual([]);
    await clock.advance(1);
    expect(reports).toEqual(['connect ETIMEDOUT']);
    client.emit('error', new Error('connect ECONNREFUSED'));
    expect(reports).toEqual(['connect ETIMEDOUT', 'connect ECONNREFUSED']);
    stop();
  });

  it('has its time limit without the time in which the event loop stood still', async () => {
    const { clock, reports, stop } = watched('connecting');
    await clock.advance(500);
    clock.jump(60_000);
    await clock.advance(499);
    expect(reports).toEqual([]);
    await clock.advance(1);
    expect(reports).toHaveLength(1);
    stop();
  });

  it('shows what was read, and when a connection has ended', async () => {
    const { clock, client, connection, stop } = watched('connecting');
    expect([connection.received, connection.lostAt]).toEqual([0, -Infinity]);
    client.status = 'ready';
    client.emit('ready');
    await clock.advance(100);
    expect(connection.received).toBe(1);
    connection.probe();
    await clock.advance(0);
    expect(connection.received).toBe(2);
    client.status = 'close';
    client.emit('close');
    expect(connection.lostAt).toBe(100);
    connection.probe();
    await clock.advance(0);
    expect(connection.received).toBe(2);
    stop();
  });
});
