import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { UnansweredError } from '../../../lib/contract/store.js';
import { PendingRequests } from '../../../lib/stores/pending-requests.js';
import { deferred, outcome } from '../../support/async.js';

const LIMIT_MS = 1_000;

function pending(servers: ConstructorParameters<typeof PendingRequests>[1] = {}) {
  const clock = new ManualClock();
  const silent: (string | undefined)[] = [];
  const context = { clock, requestTimeoutMs: LIMIT_MS };
  const requests = new PendingRequests(context, servers, (_, server) => silent.push(server));
  /** Sends a request whose reply the test gives. */
  const send = (key: string) => {
    const { promise, resolve: reply, reject: fail } = deferred<string>();
    return { reply, fail, ended: outcome(requests.expect(key, () => promise)) };
  };
  return { clock, requests, silent, send };
}

describe('PendingRequests', () => {
  it('ends a request by its reply, or by its error', async () => {
    const { clock, silent, send } = pending();
    const [one, two] = [send('goods:1'), send('goods:2')];
    const error = new Error('refused');
    one.reply('granted');
    two.fail(error);
    await clock.advance(0);
    expect(one.ended.value).toBe('granted');
    expect(two.ended.error).toBe(error);
    await clock.advance(2 * LIMIT_MS);
    expect([silent, clock.pending]).toEqual([[], 0]);
  });

  it('ends the requests of the keys whose connection has ended, and leaves the others', async () => {
    const { clock, requests, silent, send } = pending();
    const [one, two] = [send('goods:1'), send('goods:2')];
    requests.cut((key) => key === 'goods:1');
    await clock.advance(0);
    expect(one.ended.error).toBeInstanceOf(UnansweredError);
    expect(two.ended).toEqual({});
    one.reply('too late');
    two.reply('granted');
    await clock.advance(0);
    expect(two.ended.value).toBe('granted');
    await clock.advance(2 * LIMIT_MS);
    expect([silent, clock.pending]).toEqual([[], 0]);
  });

  it('ends a request once its server has been silent for the time limit, and names the server', async () => {
    const { clock, silent, send } = pending({ serverOf: () => 'redis-2' });
    const { ended } = send('goods:1');
    await clock.advance(LIMIT_MS - 1);
    expect([ended, silent]).toEqual([{}, []]);
    await clock.advance(2);
    expect(ended.error).toEqual(new UnansweredError('no reply within 1000 ms'));
    expect(silent).toEqual(['redis-2']);
    expect(clock.pending).toBe(0);
  });
});
