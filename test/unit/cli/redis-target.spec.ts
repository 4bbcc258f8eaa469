import { describe, expect, it } from '@jest/globals';
import { type RedisArguments, redisTarget, withoutSecrets } from '../../../lib/cli/redis-target.js';

/** Returns the message of the error, or `none`. */
function refusal(given: RedisArguments, env: NodeJS.ProcessEnv = {}): string {
  try {
    redisTarget(given, env);
  } catch (error) {
    expect(error).toMatchObject({ exitCode: 2 });
    return (error as Error).message;
  }
  return 'none';
}

describe('one Redis', () => {
  it.each<[RedisArguments, NodeJS.ProcessEnv, string, string]>([
    [{}, {}, 'redis://127.0.0.1:6379', 'redis://127.0.0.1:6379'],
    [{}, { REDIS_URL: '' }, 'redis://127.0.0.1:6379', 'redis://127.0.0.1:6379'],
    [{}, { REDIS_URL: 'redis://b:1' }, 'redis://b:1', 'redis://b:1'],
    [{ redis: 'redis://a' }, { REDIS_URL: 'redis://b:1' }, 'redis://a', 'redis://a'],
    [{ redis: 'a:7000' }, {}, 'redis://a:7000', 'redis://a:7000'],
    [{ redis: 'redis://u:p%40ss@a/3' }, {}, 'redis://u:p%40ss@a/3', 'redis://***@a/3'],
    [{ redis: 'redis://a' }, { REDIS_PASSWORD: 'p@ss' }, 'redis://:p%40ss@a', 'redis://***@a'],
    [{ redis: 'redis://a' }, { REDIS_USERNAME: 'u', REDIS_PASSWORD: 'pass' }, 'redis://u:pass@a', 'redis://***@a'],
    [{ redis: 'redis://u:own@a' }, { REDIS_PASSWORD: 'other' }, 'redis://u:own@a', 'redis://***@a'],
    [{ redis: 'redis://a', tls: true, db: 4 }, {}, 'rediss://a/4', 'rediss://a/4'],
  ])('%j with %j', (given, env, redis, shown) => {
    expect(redisTarget(given, env)).toMatchObject({ redis, shown, kind: 'redis' });
  });

  it('may be a socket', () => {
    const target = redisTarget({ redis: '/run/redis.sock', db: 2 }, { REDIS_PASSWORD: 'pass' });
    expect(target).toMatchObject({
      redis: { path: '/run/redis.sock', password: 'pass', db: 2 },
      shown: '/run/redis.sock',
    });
  });

  it('keeps the password in both spellings as a secret', () => {
    expect(redisTarget({ redis: 'redis://u:p%40ss@a' }, {}).secrets).toEqual(['p%40ss', 'p@ss']);
  });
});

describe('a cluster', () => {
  it('is given by nodes', () => {
    const env = { REDIS_PASSWORD: 'pass', REDIS_URL: 'redis://elsewhere' };
    expect(redisTarget({ cluster: 'a:7000, b,[::1]:7001', tls: true }, env)).toEqual({
      redis: {
        nodes: [
          { host: 'a', port: 7000 },
          { host: 'b', port: 6379 },
          { host: '::1', port: 7001 },
        ],
        redisOptions: { password: 'pass', tls: {} },
      },
      kind: 'cluster',
      shown: 'the cluster a:7000,b:6379,[::1]:7001',
      secrets: ['pass'],
    });
  });
});

describe('a master behind Sentinel', () => {
  it('is given by Sentinels and its name', () => {
    const env = { REDIS_PASSWORD: 'pass', REDIS_SENTINEL_USERNAME: 'watcher', REDIS_SENTINEL_PASSWORD: 'other' };
    expect(redisTarget({ sentinel: 'a,b:26380', master: 'locks', db: 1 }, env)).toMatchObject({
      redis: {
        sentinels: [
          { host: 'a', port: 26379 },
          { host: 'b', port: 26380 },
        ],
        name: 'locks',
        db: 1,
        password: 'pass',
        sentinelUsername: 'watcher',
        sentinelPassword: 'other',
      },
      shown: 'the master locks at the Sentinels a:26379,b:26380',
      secrets: ['pass', 'other'],
    });
  });
});

describe('wrong options', () => {
  it.each<[RedisArguments, string]>([
    [{ redis: 'redis://a', cluster: 'b' }, '--redis and --cluster were given. Allowed is one'],
    [{ master: 'm' }, '--master was given without --sentinel'],
    [{ sentinel: 'a' }, '--sentinel was given without --master'],
    [{ cluster: 'a', db: 1 }, '--db was given with --cluster'],
    [{ cluster: '' }, '--cluster is "". Allowed are addresses like host:port,host:port'],
    [{ cluster: 'a:99999' }, '--cluster is "a:99999"'],
    [{ cluster: 'u:se,cret@a:1' }, '--cluster is "***@a:1"'],
    [{ sentinel: 'rediss://u:secret@a:1', master: 'm' }, '--sentinel is "rediss://***@a:1"'],
    [{ redis: 'http://a' }, 'The URL of Redis is "http://a". Allowed is a URL like redis://'],
    [{ redis: 'redis://:se/cret@a:x' }, 'The URL of Redis is "redis://***@a:x"'],
  ])('%j', (given, message) => {
    expect(refusal(given)).toContain(message);
    expect(refusal(given)).not.toContain('cret');
  });

  it('names no password of the environment', () => {
    expect(refusal({}, { REDIS_URL: 'redis://:se/cret@a:x' })).toContain('redis://***@a:x');
  });
});

describe('withoutSecrets()', () => {
  it('takes passwords out of a message', () => {
    const text = "connect to redis://u:p%40ss@a failed: 'p@ss' is wrong";
    expect(withoutSecrets(text, ['p%40ss', 'p@ss'])).toBe("connect to redis://***@a failed: '***' is wrong");
  });
});
