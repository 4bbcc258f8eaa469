import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { LockRuntime } from '../../../lib/lock-runtime.js';

/** Returns what the start of a module throws, as an application prints it. Returns `none` if it throws nothing. */
function failureOf(redis: unknown): string {
  try {
    LockRuntime.start({ redis: redis as string });
  } catch (error) {
    return error instanceof LockConfigError ? inspect(error, { depth: 9 }) : 'another error';
  }
  return 'none';
}

describe('an address that cannot be one', () => {
  it.each<[unknown, string]>([
    ['redis://:secret@host:notaport', 'redis is "redis://***@host:notaport"; expected a URL like'],
    ['rediss://user:secret@host:99999', 'redis is "rediss://***@host:99999"; expected'],
    ['redis://:se/cr@et@host:x', 'redis is "redis://***@host:x"; expected'],
    ['redis://host:x?password=secret', 'redis is "redis://host:x?password=***"; expected'],
    ['user:secret@host:6379', 'redis is "***@host:6379"; expected a redis:// or rediss:// URL'],
    ['http://:se/cret@host', 'redis is "http://***@host"; expected'],
    [{ host: 'a', port: 'x', password: 'secret' }, 'redis: port is "x"; expected a whole number from 0 to 65535.'],
    [{ host: 'a', port: 99_999, password: 'secret' }, 'redis: port is 99999; expected'],
    [{ host: 'a', port: Number.NaN, password: 'secret' }, 'redis: port is NaN; expected'],
    [{ host: 5, password: 'secret' }, 'redis: host is 5; expected the name or the address of a server;'],
    [{ url: 'redis://:secret@host:1' }, 'redis: host is undefined; expected the name or the address of a server;'],
    [{ url: 'redis://:secret@host:1', port: 6380 }, 'redis: host is undefined; expected'],
    [{ socket: { host: 'a', port: 1 }, password: 'secret' }, 'redis: host is undefined; expected'],
    [{ host: null, port: '6379' }, 'redis: host is null; expected'],
    [{ nodes: [{ url: 'redis://:secret@host:1' }] }, 'redis: nodes[0]: host is undefined; expected'],
    [{ host: 'a', database: 3 }, 'redis: ioredis has no option database; expected db.'],
    [{ sentinels: [{ host: 'a' }], name: 'm', database: 3 }, 'redis: ioredis has no option database; expected db.'],
    [{ host: 'a', db: 'lock' }, 'redis: the database is "lock"; expected a whole number from 0 up.'],
    [{ host: 'a', db: '' }, 'redis: the database is ""; expected a whole number'],
    [{ host: 'a', db: -1 }, 'redis: the database is -1; expected a whole number'],
    [{ host: 'a', db: 1.5 }, 'redis: the database is 1.5; expected a whole number'],
    [{ host: 'a', db: Number.NaN }, 'redis: the database is NaN; expected a whole number'],
    ['redis://:secret@host/undefined', 'redis: the database is "undefined"; expected a whole number from 0 up.'],
    ['redis://user/se/cret@host', 'redis: the database is "***@host"; expected a whole number'],
    ['redis://:secret@host?db=lock', 'redis: the database is "lock"; expected a whole number'],
    ['/run/redis.sock?db=lock', 'redis: the database is "lock"; expected a whole number'],
    ['', 'redis is ""; expected a redis:// or rediss:// URL'],
    [{ host: '' }, 'redis: host is ""; expected the name or the address of a server;'],
    [{ path: '' }, 'redis: path is ""; expected the path of a socket.'],
    [{ nodes: [''] }, 'redis: nodes[0] is ""; expected a URL like'],
    [{ sentinels: [{ host: '' }], name: 'm' }, 'redis: sentinels[0]: host is ""; expected'],
    ['redis://user:secret%@host', 'redis is "redis://***@host"; expected a URL like'],
    ['redis://%secret:a@host', 'redis is "redis://***@host"; expected a URL like'],
    [{ nodes: ['redis://:secret%zz@host'] }, 'redis: nodes[0] is "redis://***@host"; expected a URL like'],
    [{ host: 'a', port: 'redis://:secret@host:1' }, 'redis: port is "redis://***@host:1"; expected'],
    [{ sentinels: [{ host: 'a', port: 'x' }], name: 'm', password: 'secret' }, 'redis: sentinels[0]: port is "x"'],
    [{ sentinels: [null], name: 'm' }, 'redis: sentinels[0] is null; expected an object with host and port.'],
    [{ nodes: ['redis://a:1', 'redis://:secret@b:x'] }, 'redis: nodes[1] is "redis://***@b:x"; expected a URL like'],
    [{ nodes: ['70000'] }, 'redis: nodes[0]: port is "70000"; expected'],
    [{ nodes: [{ host: 'a', port: 'x', password: 'secret' }] }, 'redis: nodes[0]: port is "x"; expected'],
    [{ nodes: [null] }, 'redis: nodes[0] is null; expected an object with host and port.'],
  ])('is refused without the password: %j', (redis, expected) => {
    const failure = failureOf(redis);
    expect(failure).toContain(expected);
    expect(failure).not.toMatch(/secret|se\/cr/);
  });

  it('is refused as the node of a quorum', () => {
    const store = quorum(['redis://a:1', 'redis://:secret@b:x', 'redis://c:1']);
    const start = (): unknown => LockRuntime.start({ store });
    expect(start).toThrow(LockConfigError);
    expect(start).toThrow('"redis://***@b:x"');
  });
});

describe('an address that can be one', () => {
  it.each([
    'redis://',
    'redis://host',
    'rediss://user:p%40ss@host:6380/2?family=6',
    'redis://[::1]:6379',
    'redis://host/',
    'redis://host/3/',
    'redis://host?db=3',
    '/run/redis.sock?db=3',
    { host: 'a', db: '3' },
    { host: 'a', db: null, database: undefined },
    { host: 'a', db: 0, aNewOptionOfIoredis: true },
    '/run/redis.sock',
    { host: 'a', port: '6379' },
    { host: 'a', port: null, url: 'redis://b' },
    { path: '/run/redis.sock' },
    { sentinels: [{ host: 'a' }, { host: 'b', port: 26_379 }], name: 'mymaster' },
    {
      nodes: ['redis://a:6379', 'rediss://:pass@b', 6379, '6380', '10.0.0.1:6379', 'c:6379', { host: 'c' }],
    },
  ])('is accepted: %j', (redis) => {
    expect(failureOf(redis)).toBe('none');
  });
});
