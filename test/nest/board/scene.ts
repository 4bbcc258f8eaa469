import { jest } from '@jest/globals';
import { lockChannels, LockLostError, type LockService, type StorePing } from 'nestjs-redis-lock';
import type { BoardLock } from '../../../lib/board/board-source.js';
import { boardLock } from '../../support/board-source.js';
import type { TestApp } from '../support/app.js';
import { startBoard } from './support.js';

const waiters = (...identities: string[]): BoardLock['waiting'] =>
  identities.map((identity) => ({ waiter: identity, identity, mode: 'exclusive', permits: undefined }));
const others = (...identities: string[]): BoardLock['others'] =>
  identities.map((identity) => ({ holder: identity, identity }));

/** The locks of a busy shop. */
const SCENE: readonly BoardLock[] = [
  boardLock('goods:300', {
    identity: 'api-7f9c-31',
    heldForMs: 4_210,
    expiresInMs: 26_300,
    fencingToken: 1_795_311_602_114_307,
    method: 'StockService.buy',
    waiting: waiters('api-7f9c-44', 'api-7f9c-52', 'worker-2b1a-8'),
    callers: { count: 4, waitedMs: 3_900, method: 'StockService.buy', label: undefined },
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

const SCENE_SERVERS: StorePing = {
  handoff: 'subscription',
  degraded: undefined,
  isUp: true,
  servers: [{ server: 'redis-main.internal:6379', isUp: true, latencyMs: 0.42, error: undefined }],
};

/** The lost locks by how many seconds ago. */
const LOST = new Map([
  [
    96,
    {
      resource: 'goods:112',
      heldMs: 7_012,
      method: 'StockService.buy',
      label: 'req-77c2',
      why: 'the event loop was blocked for 6.9 s, and its renewal could not be sent',
    },
  ],
  [
    31,
    {
      resource: 'report:weekly',
      heldMs: 184_300,
      method: 'ReportJob.run',
      label: 'req-8d01',
      why: 'it was released by force',
    },
  ],
]);

/** Publishes the events of five minutes, as far as they fit into this moment. */
function publishTraffic(): void {
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
      const lost = LOST.get(second);
      if (lost !== undefined) {
        const { resource, heldMs, method, label, why } = lost;
        const reason = new LockLostError(`The lock on ${resource} was lost after ${heldMs} ms: ${why}.`, { resource });
        lockChannels.lost.publish({ ...event, resource, heldMs, method, label, reason });
      }
    }
  } finally {
    clock.mockRestore();
  }
}

/** Replaces what a lock service lists. */
export function listOf(locks: LockService, list: () => AsyncIterable<BoardLock>): void {
  Object.defineProperty(locks, 'list', { value: list, configurable: true });
}

/** Starts an application whose board shows a busy shop. */
export async function startScene(): Promise<TestApp> {
  const app = await startBoard({ allowRelease: true }, { locks: { identity: 'api-7f9c-31' } });
  let reads = 0;
  listOf(app.locks, async function* () {
    reads += 1;
    // At first the leases are whole, so that the page knows how long they are.
    for (const lock of SCENE) yield reads === 1 ? { ...lock, expiresInMs: 30_000 } : lock;
  });
  const ping = (): Promise<StorePing> => Promise.resolve(SCENE_SERVERS);
  Object.defineProperty(app.locks, 'ping', { value: ping });
  publishTraffic();
  return app;
}
