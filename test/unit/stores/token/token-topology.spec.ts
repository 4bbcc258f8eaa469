import { expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { NodeRequest } from '../../../../lib/redis/topology.js';
import type { StoreContext } from '../../../../lib/stores/store-context.js';
import { tokenTopology } from '../../../../lib/stores/token/token-topology.js';

it('a request fails if the client throws when it is sent again with keys of one slot', () => {
  const redis = (): unknown => ({ keyPrefix: '', status: 'ready' });
  const context = { redis, clock: new ManualClock(), requestTimeoutMs: 1_000, prefix: 'lock_' };
  const topology = tokenTopology(context as unknown as StoreContext);
  const failures: unknown[] = [];
  let sent = 0;
  const request: NodeRequest<unknown> = {
    send: (_node, listener) => {
      sent += 1;
      if (sent > 1) throw new Error('the client throws');
      listener.onFailed(new Error('CROSSSLOT Keys in request do not hash to the same slot'));
    },
    onReply: () => undefined,
    onFailed: (error) => void failures.push(error),
  };
  topology.request('{lock_goods}:300', request);
  expect([sent, failures]).toEqual([2, [new Error('the client throws')]]);
});
