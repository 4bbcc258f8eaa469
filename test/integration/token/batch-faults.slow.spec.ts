import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../../support/async.js';
import { COUNT, ManyLocks, RESOURCES, type Way } from '../../support/many-locks.js';
import { renewAllOf } from '../../support/inside.js';

let many: ManyLocks;

beforeAll(async () => {
  many = await ManyLocks.start();
});
afterEach(() => many.clear());
afterAll(() => many.here.close());

/** Waits until the server or the proxy has all that was sent. Then ends the connections, and what the proxy holds. */
async function cut(
  { proxy, log }: Way,
  direction: 'requests' | 'replies',
  script: string,
  ran: () => Promise<boolean>,
) {
  await eventually('the call is sent', () => log.count(script) > 0);
  if (direction === 'replies') await eventually('the script has run', ran);
  proxy.reset();
  proxy.resume(direction);
}

const CUTS = (['requests', 'replies'] as const).flatMap((direction) =>
  [true, false].flatMap((resend) => [false, true].map((collects) => ({ direction, resend, collects }))),
);

describe.each(CUTS)('a connection that ends (held: $direction, resent: $resend, collected: $collects)', (how) => {
  const { direction, resend, collects } = how;
  const client = { autoResendUnfulfilledCommands: resend, enableAutoPipelining: collects };
  const start = (options = {}): Promise<Way> => many.behindProxy(options, client);

  it('leaves no caller without its lock', async () => {
    const way = await start();
    way.proxy.hold(direction);
    const calls = RESOURCES.map((resource) => way.locks.acquire(resource));
    await cut(way, direction, 'tokenAcquireMany', async () => (await many.locked()) === COUNT);
    expect(await many.faultsOf(await Promise.all(calls))).toEqual([]);
  });

  it('keeps no lock from its next holder', async () => {
    // A client that does not send it again never says that a release was lost. Then the lease ends the lock.
    const way = await start(resend ? {} : { ttlMs: 6_000 });
    const next = many.here.instance();
    const held = await many.acquireAll(way.locks);
    const waiting = many.acquireAll(next);
    await eventually('all wait', async () => (await many.waitedFor()) === COUNT);
    way.proxy.hold(direction);
    const released = Promise.allSettled(held.map((lock) => lock.release()));
    await cut(way, direction, 'tokenReleaseMany', async () => (await many.waitedFor()) === 0);
    const granted = await waiting;
    granted.forEach((lock, i) => expect(lock.fencingToken).toBeGreaterThan(held[i].fencingToken));
    // A release that was not confirmed has thrown, and is repeated.
    expect(await released).toHaveLength(COUNT);
    expect(await many.faultsOf(granted)).toEqual([]);
  });

  it('loses no lock that is renewed', async () => {
    const way = await start();
    const held = await many.acquireAll(way.locks);
    await many.halveLeases();
    way.log.clear();
    way.proxy.hold(direction);
    renewAllOf(way.locks);
    await cut(way, direction, 'tokenExtendMany', () => many.areRenewed());
    await eventually('all leases are renewed', () => many.areRenewed());
    // A client that does not send it again loses a request that was written to the dying connection.
    const replies = (): Promise<boolean> =>
      way.locks.inspect('first:1').then(
        () => true,
        () => false,
      );
    await eventually('the instance gets replies again', replies);
    expect(await many.faultsOf(held)).toEqual([]);
  });
});
