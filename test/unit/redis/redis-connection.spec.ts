import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { SystemClock } from '../../../lib/clock/clock.js';
import type { ClientListener, ServerClient } from '../../../lib/redis/client-port.js';
import { RedisConnection } from '../../../lib/redis/redis-connection.js';
import { unavailableBecause } from '../../../lib/redis/redis-errors.js';

/** Returns a connection, and the calls of its socket in order. */
function setUp() {
  const steps: string[] = [];
  const record = (step: string) => () => void steps.push(step);
  const socket = { cork: record('cork'), uncork: record('uncork') };
  const client = { status: 'ready', socket };
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

  it('sends at once for a renewal, whose lock may be used by work that blocks the event loop', async () => {
    const { connection, steps } = setUp();
    connection.cork();
    connection.uncork();
    expect(steps).toEqual(['cork', 'uncork']);
    await Promise.resolve();
    expect(steps).toEqual(['cork', 'uncork']);
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
  const client = { status, target: {}, send: time, watch, emit };
  const connection = new RedisConnection(client as unknown as ServerClient, clock, 1_000);
  const reports: string[] = [];
  const stop = connection.listen({
    onDisconnected: () => undefined,
    onReconnected: () => undefined,
    onUp: () => undefined,
    onDown: ({ message }) => reports.push(message),
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

  it('is asked about TLS if the server closes it, unless it was ready before', async () => {
    const question = 'does the server expect TLS (rediss://)?';
    const { clock, client, reports, stop } = watched('connecting');
    client.emit('error', new Error('read ECONNRESET'));
    client.status = 'reconnecting';
    await clock.advance(1_000);
    expect(reports).toEqual([`read ECONNRESET: ${question}`, expect.stringContaining(`ECONNRESET: ${question}`)]);
    client.status = 'ready';
    client.emit('ready');
    client.emit('error', new Error('read ECONNRESET'));
    expect(reports.at(-1)).toBe('read ECONNRESET');
    stop();
  });
});

describe('the reason of an error', () => {
  it('is what Redis says, and names a replica, the permissions and the version', () => {
    const of = (reply: string): string => unavailableBecause(new Error(reply), 'a lock').message;
    const place = ` script: ${'5e'.repeat(20)}, on @user_script:7.`;
    expect(of(`OOM command not allowed when used memory > 'maxmemory'.${place}`)).toBe(
      "No usable reply for a lock: OOM command not allowed when used memory > 'maxmemory'.",
    );
    expect(of("READONLY You can't write against a read only replica.")).toContain('connect to the master');
    expect(of('NOPERM no permissions')).toContain('"Permissions" on the page');
    expect(of("ERR unknown command 'ssubscribe'")).toContain('need Redis 7');
    expect(of('ERR This instance has Lua scripting support disabled')).toContain('"Servers" on the page');
    expect(of('ERR command eval not support for normal user')).toContain('"Servers" on the page');
  });

  it.each([
    ['READONLY You cannot write', 'READONLY', false],
    ['ERR Error running script: WRONGTYPE Operation against a key', 'WRONGTYPE', true],
    ["ERR The user executing the script can't run this command or subcommand", 'NOPERM', true],
    ['ERR unknown command', 'ERR', true],
    ['BUSY Redis is busy running a script', 'BUSY', false],
    ['Connection is closed.', undefined, false],
  ])('has a code: %s', (reply, refusal, permanent) => {
    expect(unavailableBecause(new Error(reply), 'a lock')).toMatchObject({ refusal, permanent });
  });

  it('has the errors of all addresses of a host', () => {
    const refused = ['::1', '127.0.0.1'].map((host) => new Error(`connect ECONNREFUSED ${host}:6379`));
    expect(unavailableBecause(new AggregateError(refused), 'a lock').message).toBe(
      'No usable reply for a lock: connect ECONNREFUSED ::1:6379, connect ECONNREFUSED 127.0.0.1:6379.',
    );
  });
});
