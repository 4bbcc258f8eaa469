// The same with real replicas is in test/integration/token/replicas.slow.spec.ts.
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { FurtherConnection } from '../../../../../lib/redis/client-port.js';
import { type Confirmed, ReplicaAcks } from '../../../../../lib/stores/token/replication/replica-acks.js';
import { outcome } from '../../../../support/async.js';
import { FakeReplicated } from '../../../../support/fake-replicated.js';

const REQUEST_TIMEOUT_MS = 1_000;

let clock: ManualClock;
let connection: FakeReplicated;
let infos: string[];
let acks: ReplicaAcks;

beforeEach(() => {
  clock = new ManualClock();
  connection = new FakeReplicated();
  infos = [];
  const names = { secret: 'secret', keysOf: (key: string) => [key, `${key}|fence`, `${key}|queue`] as const };
  const demand = { min: 1, timeoutMs: 50 };
  const log = { warn: () => undefined, info: (message: string) => void infos.push(message) };
  const port = connection as object as FurtherConnection;
  acks = new ReplicaAcks(port, names, demand, clock, REQUEST_TIMEOUT_MS, log);
});

/** Waits until replicas have a lock. */
const confirm = (key: string): Promise<readonly Confirmed[]> =>
  acks.confirm([{ keys: [key], owner: 'one:1', mode: 'exclusive', leaseMs: 30_000 }]);

const UNAVAILABLE = { code: 'LOCK_UNAVAILABLE' };

describe('the connection that waits for replicas', () => {
  it('writes no lease of a request that has timed out before the connection was ready', async () => {
    const late = outcome(confirm('goods:1'));
    await clock.advance(REQUEST_TIMEOUT_MS);
    expect(late.value).toEqual([expect.objectContaining(UNAVAILABLE)]);
    const next = outcome(confirm('goods:2'));
    connection.becomeReady();
    await clock.advance(0);
    expect(next.value).toEqual(['renewed']);
    expect(connection.written).toEqual(['goods:2']);
  });

  it('is cut if it has not become ready within the time of a request', async () => {
    acks.open();
    await clock.advance(5_000);
    const early = outcome(confirm('goods:1'));
    await clock.advance(1);
    connection.accept();
    await clock.advance(REQUEST_TIMEOUT_MS - 1);
    expect([early.value?.length, connection.cuts]).toEqual([1, 0]);
    const later = outcome(confirm('goods:1'));
    await clock.advance(REQUEST_TIMEOUT_MS);
    expect([later.value?.length, connection.cuts]).toEqual([1, 1]);
  });

  it('is not cut while it connects again after a loss', async () => {
    acks.open();
    connection.becomeReady();
    await clock.advance(REQUEST_TIMEOUT_MS);
    connection.lose();
    const waiting = outcome(confirm('goods:1'));
    await clock.advance(REQUEST_TIMEOUT_MS);
    expect(waiting.value).toEqual([expect.objectContaining(UNAVAILABLE)]);
    expect(connection.cuts).toBe(0);
  });

  it('fails the requests that wait for it as soon as the module closes', async () => {
    const waiting = outcome(confirm('goods:1'));
    acks.close();
    await clock.advance(0);
    expect(waiting.value).toEqual([expect.objectContaining(UNAVAILABLE)]);
  });

  it('logs how long too few replicas knew of the locks', async () => {
    acks.open();
    connection.becomeReady();
    await clock.advance(60_000);
    connection.acknowledges = false;
    await confirm('goods:1');
    await clock.advance(5_000);
    connection.acknowledges = true;
    await confirm('goods:1');
    expect(infos).toEqual(['Enough replicas know of the locks again after 5.0 s (replicas.min: 1).']);
  });
});
