import { describe, expect, it } from '@jest/globals';
import type { CliError } from '../../../lib/cli/exit-codes.js';
import { type RedisArguments, redisTarget, withoutSecrets } from '../../../lib/cli/redis-target.js';
import type { RedisClusterOptions } from '../../../lib/redis/redis-client.js';

/** Returns the message of the error with its advice, or `none`. */
function refusal(redis: string, env: NodeJS.ProcessEnv = {}): string {
  try {
    redisTarget({ redis }, env);
  } catch (error) {
    const { exitCode, message, advice } = error as CliError;
    return exitCode === 2 ? `${message} ${advice}` : `exit code ${exitCode}: ${message}`;
  }
  return 'none';
}

const SENTINEL_ENV = { REDIS_SENTINEL_USERNAME: 'watcher', REDIS_SENTINEL_PASSWORD: 'other' };

describe('one Redis', () => {
  it.each<[RedisArguments, NodeJS.ProcessEnv, string, string]>([
    [{}, {}, 'redis://127.0.0.1:6379', 'redis://127.0.0.1:6379'],
    [{}, { REDIS_URL: '' }, 'redis://127.0.0.1:6379', 'redis://127.0.0.1:6379'],
    [{}, { REDIS_URL: 'redis://b:1' }, 'redis://b:1', 'redis://b:1'],
    [{ redis: 'redis://a' }, { REDIS_URL: 'redis://b:1' }, 'redis://a', 'redis://a'],
    [{ redis: 'a:7000' }, {}, 'redis://a:7000', 'redis://a:7000'],
    [{ redis: 'rediss://a/4' }, {}, 'rediss://a/4', 'rediss://a/4'],
    [{ redis: 'redis://[::1]:7000/' }, {}, 'redis://[::1]:7000/', 'redis://[::1]:7000/'],
    [{ redis: 'redis://u:p%40ss@a/3' }, {}, 'redis://u:p%40ss@a/3', 'redis://***@a/3'],
    [{ redis: 'redis://a' }, { REDIS_PASSWORD: 'p@ss' }, 'redis://:p%40ss@a', 'redis://***@a'],
    [{ redis: 'redis://a' }, { REDIS_USERNAME: 'u', REDIS_PASSWORD: 'pass' }, 'redis://u:pass@a', 'redis://***@a'],
    [{ redis: 'redis://own@a' }, { REDIS_USERNAME: 'u', REDIS_PASSWORD: 'p' }, 'redis://own:p@a', 'redis://***@a'],
    [{ redis: 'redis://:own@a' }, { REDIS_USERNAME: 'u', REDIS_PASSWORD: 'p' }, 'redis://:own@a', 'redis://***@a'],
    [{ redis: 'redis://a?password=own' }, {}, 'redis://a?password=own', 'redis://a?password=***'],
    [{ redis: 'redis://a/1', keyPrefix: 'app:' }, {}, 'redis://a/1?keyPrefix=app%3A', 'redis://a/1'],
  ])('%j with %j', (given, env, redis, shown) => {
    expect(redisTarget(given, env)).toMatchObject({ redis, shown, kind: 'redis' });
  });

  it('may be a socket', () => {
    const given = { redis: '/run/redis.sock?db=2', keyPrefix: 'app:' };
    expect(redisTarget(given, { REDIS_PASSWORD: 'pass' })).toMatchObject({
      redis: { path: '/run/redis.sock', password: 'pass', db: 2, keyPrefix: 'app:' },
      shown: '/run/redis.sock',
    });
  });

  it('keeps the password in both spellings as a secret', () => {
    expect(redisTarget({ redis: 'redis://u:p%40ss@a' }, {}).secrets).toEqual(['p%40ss', 'p@ss']);
  });
});

describe('a cluster', () => {
  it('is given by nodes', () => {
    const given = { redis: 'redis-cluster://a:7000,b,[::1]:7001', keyPrefix: 'app:' };
    expect(redisTarget(given, { REDIS_PASSWORD: 'p@ss' })).toEqual({
      redis: {
        nodes: [
          { host: 'a', port: 7000 },
          { host: 'b', port: 6379 },
          { host: '::1', port: 7001 },
        ],
        redisOptions: { password: 'p@ss' },
        keyPrefix: 'app:',
      },
      kind: 'cluster',
      tls: false,
      shown: 'redis-cluster://a:7000,b:6379,[::1]:7001',
      secrets: ['p@ss', 'p%40ss'],
    });
  });

  it('takes the credentials of its URL before those of the environment', () => {
    const env = { REDIS_USERNAME: 'u', REDIS_PASSWORD: 'p' };
    const credentialsIn = (redis: string): unknown => redisTarget({ redis }, env).redis;
    expect(credentialsIn('redis-cluster://:own@a')).toMatchObject({ redisOptions: { password: 'own' } });
    expect(credentialsIn('redis-cluster://:own@a')).not.toMatchObject({ redisOptions: { username: 'u' } });
    expect(credentialsIn('redis-cluster://me@a')).toMatchObject({ redisOptions: { username: 'me', password: 'p' } });
    expect(credentialsIn('redis-cluster://m%3Ae:o%40wn@a')).toMatchObject({
      redisOptions: { username: 'm:e', password: 'o@wn' },
    });
  });

  it('keeps names of hosts for the certificates of TLS', () => {
    const { redis, shown } = redisTarget({ redis: 'rediss-cluster://a.example:7000' }, {});
    expect(redis).toMatchObject({ redisOptions: { tls: {} } });
    const found: unknown[] = [];
    (redis as RedisClusterOptions).dnsLookup?.('a.example', (...args) => found.push(...args));
    expect(found).toEqual([null, 'a.example']);
    expect(shown).toBe('rediss-cluster://a.example:7000');
  });

  it.each(['REDIS-CLUSTER://a', 'redis+cluster://a/'])('may be spelled %s', (redis) => {
    expect(redisTarget({ redis }, {})).toMatchObject({ kind: 'cluster', shown: 'redis-cluster://a:6379' });
  });
});

describe('a master behind Sentinel', () => {
  it('is given by Sentinels and its name', () => {
    const given = { redis: 'redis-sentinel://me:pass@a,b:26380/my%20locks/1', keyPrefix: 'app:' };
    expect(redisTarget(given, { ...SENTINEL_ENV, REDIS_USERNAME: 'u' })).toEqual({
      redis: {
        sentinels: [
          { host: 'a', port: 26379 },
          { host: 'b', port: 26380 },
        ],
        name: 'my locks',
        db: 1,
        username: 'me',
        password: 'pass',
        keyPrefix: 'app:',
        sentinelUsername: 'watcher',
        sentinelPassword: 'other',
      },
      kind: 'sentinel',
      tls: false,
      shown: 'redis-sentinel://a:26379,b:26380/my%20locks/1',
      secrets: ['pass', 'pass', 'other'],
    });
  });

  it('may use TLS, as its Sentinels do', () => {
    expect(redisTarget({ redis: 'rediss-sentinel://a/locks' }, {}).redis).toMatchObject({
      tls: {},
      sentinelTLS: {},
      enableTLSForSentinelMode: true,
    });
  });
});

describe('a wrong URL', () => {
  it.each([
    '',
    'redis://',
    'http://a',
    'redis://:se/cret@a:x',
    'redis://a/locks',
    'redis-cluster://',
    'redis-cluster://a:99999',
    'redis-cluster://a/1',
    'redis-cluster://a,,b',
    'redis-cluster://u:se/cret@a:1',
    'redis-cluster://u:se:cret@a:1',
    'redis-sentinel://a',
    'redis-sentinel://a/locks/x',
    'redis-sentinel://u:123/cret@a',
    'redis-sentinel://u:se,cret@a:x/locks',
    '/run/redis.sock?password=secret',
  ])('%j is refused without its password', (url) => {
    expect(refusal(url)).toContain('Expected redis://user:password@host:6379/0, rediss:// for TLS');
    expect(refusal(url)).not.toContain('cret');
  });

  it.each([
    ['http://a', 'http://a'],
    ['redis://:se/cret@a:x', 'redis://***@a:x'],
    ['redis-cluster://u:se/cret@a:1', 'redis-cluster://***@a:1'],
  ])('%s is shown as %s', (url, shown) => {
    expect(refusal(url)).toContain(`The URL of Redis is "${shown}".`);
  });
});

describe('withoutSecrets()', () => {
  it('takes passwords out of a message', () => {
    const text = "connect to redis://u:p%40ss@a failed: 'p@ss' is wrong";
    expect(withoutSecrets(text, ['p%40ss', 'p@ss'])).toBe("connect to redis://***@a failed: '***' is wrong");
  });
});
