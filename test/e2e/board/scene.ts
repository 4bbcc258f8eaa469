import { jest } from '@jest/globals';
import { lockChannels, LockLostError } from 'nestjs-redis-lock';
import type { BoardLock, BoardPing } from '../../../lib/board/board-source.js';
import { boardLock } from '../../support/board-source.js';

const waiters = (...identities: string[]): BoardLock['waiting'] =>
  identities.map((identity) => ({ waiter: identity, identity, mode: 'exclusive', permits: undefined }));
const others = (...identities: string[]): BoardLock['others'] =>
  identities.map((identity) => ({ holder: identity, identity }));

/** The locks of a busy shop. */
export const SCENE: readonly BoardLock[] = [
  boardLock('goods:300', {
    identity: 'api-7f9c-31',
    heldForMs: 4_210,
    expiresInMs: 26_300,
    fencingToken: 1_795_311_602_114_307,
    method: 'StockService.buy',
    waiting: waiters('api-7f9c-44', 'api-7f9c-52', 'worker-2b1a-8'),
  }),
  boardLock('order:81723', {
    identity: 'api-7f9c-44',
    heldForMs: 310,
    expiresInMs: 29_700,
    fencingToken: 1_795_311_606_020_411,
    method: 'OrderService.pay',
    waiting: waiters('api-7f9c-31'),
  }),
  boardLock('report:daily', {
    identity: 'worker-2b1a-8',
    heldForMs: 754_000,
    expiresInMs: 4_900,
    fencingToken: 1_795_310_848_700_119,
    method: 'ReportJob.run',
    label: 'req-9f31',
  }),
  boardLock('price-list:eu', {
    identity: 'api-7f9c-31',
    mode: 'shared',
    heldForMs: 1_900,
    expiresInMs: 28_000,
    fencingToken: undefined,
    others: others('api-7f9c-44', 'api-7f9c-52'),
  }),
  boardLock('mail-gateway', {
    identity: 'worker-2b1a-8',
    mode: 'shared',
    permits: 5,
    heldForMs: 820,
    expiresInMs: 29_100,
    fencingToken: undefined,
    others: others('worker-2b1a-9'),
  }),
];

export const SCENE_SERVERS: BoardPing = {
  handoff: 'subscription',
  degraded: undefined,
  isUp: true,
  servers: [{ server: 'redis-main.internal:6379', isUp: true, latencyMs: 0.42, error: undefined }],
};

/** Publishes the events of five minutes, as far as they fit into this moment. */
export function publishTraffic(): void {
  const event = { key: 'k', instance: 'default' };
  const start = Date.now();
  let at = start;
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => at);
  try {
    for (let second = 295; second >= 0; second -= 1) {
      at = start - second * 1_000;
      const load = 1 + Math.sin(second / 23) + (second % 37 === 0 ? 4 : 0);
      lockChannels.granted.publish({ ...event, resource: 'goods:300', waitedMs: 6 + 30 * load });
      lockChannels.released.publish({ ...event, resource: 'goods:300', heldMs: 40 + 25 * Math.cos(second / 31) });
      if (second === 96) {
        const text =
          'The lock on goods:112 was lost after 7012 ms: the event loop was blocked for 6.9 s, and its renewal could not be sent.';
        lockChannels.lost.publish({ ...event, resource: 'goods:112', heldMs: 7_012, reason: new LockLostError(text) });
      }
    }
  } finally {
    clock.mockRestore();
  }
}
