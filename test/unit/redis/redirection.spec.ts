import { describe, expect, it } from '@jest/globals';
import { LockUnavailableError } from 'nestjs-redis-lock';
import { redirectionIn } from '../../../lib/redis/redirection.js';

describe('where a node sends a request', () => {
  it.each([
    ['MOVED 3999 127.0.0.1:6381', { kind: 'moved', host: '127.0.0.1', port: '6381' }],
    ['ASK 3999 node-1.example:6381', { kind: 'ask', host: 'node-1.example', port: '6381' }],
    ['MOVED 3999 ::1:6381', { kind: 'moved', host: '::1', port: '6381' }],
    ['ASK 3999 2001:db8::7:6381', { kind: 'ask', host: '2001:db8::7', port: '6381' }],
    ['MOVED 3999 :6381', { kind: 'moved', host: '', port: '6381' }],
    ['TRYAGAIN Multiple keys request during rehashing of slot', { kind: 'again', host: '', port: '' }],
    ['Connection is closed.', { kind: 'lost', host: '', port: '' }],
  ])('is read from %s, whatever wraps it', (message, redirection) => {
    const error = new Error(message);
    expect(redirectionIn(error)).toEqual(redirection);
    expect(redirectionIn(new LockUnavailableError('No answer', { cause: error }))).toEqual(redirection);
  });

  it.each(['CLUSTERDOWN The cluster is down', 'ERR no MOVED 1 a:1', 'READONLY'])('is nowhere in %s', (message) => {
    expect(redirectionIn(new Error(message))).toBeUndefined();
  });
});
