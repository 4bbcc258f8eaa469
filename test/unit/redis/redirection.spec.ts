import { describe, expect, it } from '@jest/globals';
import { LockUnavailableError } from 'nestjs-redis-lock';
import { hostAndPort, reachedAt, redirectionIn } from '../../../lib/redis/redirection.js';

describe('why a node has not served a request', () => {
  it.each([
    ['MOVED 3999 127.0.0.1:6381', { kind: 'moved', address: '127.0.0.1:6381' }],
    ['ASK 3999 node-1.example:6381', { kind: 'ask', address: 'node-1.example:6381' }],
    ['ASK 3999 2001:db8::7:6381', { kind: 'ask', address: '2001:db8::7:6381' }],
    ['MOVED 3999 :6381', { kind: 'moved', address: ':6381' }],
    ['TRYAGAIN Multiple keys request during rehashing of slot', { kind: 'again', address: undefined }],
    ['Connection is closed.', { kind: 'lost', address: undefined }],
  ])('is read from %s, whatever wraps it', (message, redirection) => {
    const error = new Error(message);
    expect(redirectionIn(error)).toEqual(redirection);
    expect(redirectionIn(new LockUnavailableError('No answer', { cause: error }))).toEqual(redirection);
  });

  it.each(['CLUSTERDOWN The cluster is down', 'ERR no MOVED 1 a:1', 'READONLY'])('is not read from %s', (message) => {
    expect(redirectionIn(new Error(message))).toBeUndefined();
  });
});

describe('the address of a node', () => {
  it.each([
    ['10.0.0.1:6381', '10.0.0.1:6381'],
    [':6381', '2001:db8::7:6381'],
    ['10.0.0.2:6381', 'localhost:7001'],
  ])('that is named %s is %s', (named, reached) => {
    const natMap = { '10.0.0.2:6381': { host: 'localhost', port: 7_001 } };
    expect(reachedAt(named, '2001:db8::7:6379', natMap)).toBe(reached);
    expect(reachedAt(named, '2001:db8::7:6379', (address) => natMap[address as keyof typeof natMap])).toBe(reached);
  });

  it('has a host and a port', () => {
    expect(hostAndPort('2001:db8::7:6379')).toEqual({ host: '2001:db8::7', port: 6_379 });
  });
});
