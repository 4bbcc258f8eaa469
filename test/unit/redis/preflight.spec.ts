import { describe, expect, it } from '@jest/globals';
import { findingsIn } from '../../../lib/redis/preflight.js';

/** What a server replies to INFO, with some fields changed or, if undefined, left out. */
function infoOf(changes: Readonly<Record<string, string | undefined>>): string {
  const fields: Record<string, string | undefined> = {
    redis_version: '7.2.4',
    maxmemory: '1048576',
    maxmemory_policy: 'noeviction',
    role: 'master',
    cluster_enabled: '0',
    ...changes,
  };
  const lines = Object.entries(fields).filter(([, value]) => value !== undefined);
  return `# Server\r\n${lines.map(([name, value]) => `${name}:${value}`).join('\r\n')}\r\n`;
}

const problemsOf = (changes: Readonly<Record<string, string | undefined>>, isOfCluster = false): readonly string[] =>
  findingsIn(infoOf(changes), isOfCluster).map(({ problem }) => problem);

describe('the reply to INFO', () => {
  it('has no finding if nothing is wrong', () => {
    expect(problemsOf({})).toEqual([]);
  });

  it.each(['volatile-lru', 'volatile-lfu', 'volatile-ttl', 'volatile-random', 'allkeys-lru', 'allkeys-lfu'])(
    'has a finding if the policy is %s',
    (maxmemory_policy) => {
      const problem = `may delete locks that are held, because its maxmemory-policy is ${maxmemory_policy}`;
      expect(problemsOf({ maxmemory_policy })).toEqual([problem]);
      // Some services hide their limit.
      expect(problemsOf({ maxmemory_policy, maxmemory: undefined })).toEqual([problem]);
      expect(problemsOf({ maxmemory_policy }, true)).toEqual([problem]);
    },
  );

  it('has no finding if the policy has no limit that it could apply to', () => {
    expect(problemsOf({ maxmemory_policy: 'volatile-lru', maxmemory: '0' })).toEqual([]);
  });

  it.each([
    ['5.0.14', {}, true],
    ['6.0.20', {}, true],
    ['6.2.0', {}, false],
    ['6.10.0', {}, false],
    ['7.0.15', {}, false],
    ['10.0.0', {}, false],
    // For compatibility other servers report a version of Redis, which says nothing about them.
    ['4.0.0', { kvrocks_version: '2.9.0' }, false],
    ['6.0.0', { valkey_version: '9.0.0' }, false],
    ['255.255.255', {}, false],
    ['unstable', {}, false],
  ])('knows whether version %s is too old', (redis_version, others, isOld) => {
    const expected = isOld ? [`has version ${redis_version}`] : [];
    expect(problemsOf({ redis_version, ...others })).toEqual(expected);
  });

  it.each(['slave', 'replica'])('has a finding if the role is %s', (role) => {
    expect(problemsOf({ role, slave_read_only: '1' })).toEqual(['is a replica and refuses writes']);
    expect(problemsOf({ role, slave_read_only: '0' })).toEqual([
      'is a writable replica, and its master overwrites locks',
    ]);
    // The client of a cluster knows the roles.
    expect(problemsOf({ role }, true)).toEqual([]);
  });

  it('has a finding if a node of a cluster is used as one server', () => {
    const problem = 'is a node of a cluster, and its client cannot use locks on other nodes';
    expect(problemsOf({ cluster_enabled: '1' })).toEqual([problem]);
    expect(problemsOf({ cluster_enabled: '1' }, true)).toEqual([]);
  });

  it.each(['', 'garbage', ':::', 'maxmemory_policy', '\r\n\r\n', 'redis_version:\r\nrole:\r\nmaxmemory_policy:'])(
    'has no finding if it is unparsable: %j',
    (info) => {
      expect(findingsIn(info, false)).toEqual([]);
    },
  );

  it('may end its lines without a carriage return', () => {
    expect(findingsIn('maxmemory_policy:volatile-ttl\nrole:slave\n', false)).toHaveLength(2);
  });
});
