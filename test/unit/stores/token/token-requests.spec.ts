import { describe, expect, it } from '@jest/globals';
import { SystemClock } from '../../../../lib/core/time/clock.js';
import { QueuedOwners } from '../../../../lib/stores/token/queued-owners.js';
import { TokenRequests } from '../../../../lib/stores/token/token-requests.js';
import type { ReleaseReply } from '../../../../lib/stores/token/token-scripts.js';
import type { TokenTopology } from '../../../../lib/stores/token/token-topology.js';

/** Requests to a server that gives these replies to releases, and none to further ones. */
function requestsTo(...replies: readonly ReleaseReply[]) {
  const left = [...replies];
  const request: TokenTopology['request'] = (_key, _send, onReply) => {
    const reply = left.shift();
    return reply === undefined ? new Promise(() => undefined) : Promise.resolve(onReply(reply as never));
  };
  const topology = { scriptGroupOf: () => '', cancelPending: () => false, request } as unknown as TokenTopology;
  const subscription = {
    isSubscribed: () => false,
    open: () => undefined,
    onGranted: () => undefined,
    onReleased: () => undefined,
  };
  return new TokenRequests(topology, new SystemClock(), new QueuedOwners(), subscription);
}

/** Returns whether all that was sent again is settled by the end of the tick. */
const isSettled = (requests: TokenRequests): Promise<boolean> =>
  Promise.race([
    requests.settled().then(() => true),
    new Promise<boolean>((resolve) => setImmediate(() => setImmediate(() => resolve(false)))),
  ]);

const release = {
  keys: ['goods:300'],
  owner: 'one:1',
  mode: 'shared',
  keepMs: 0,
  handoffMs: 1_200,
  tokens: 1,
} as const;

describe('a release that has to run again', () => {
  it('is sent again, and waited for', async () => {
    const again = { wasHeld: true, repeat: true };
    const requests = requestsTo(again, again, { wasHeld: false, repeat: false });
    expect(await requests.release(release)).toBe(true);
    await requests.settled();
    expect(await isSettled(requests)).toBe(true);
  });

  it('is not waited for once its connection has ended', async () => {
    const requests = requestsTo({ wasHeld: true, repeat: true });
    expect(await requests.release(release)).toBe(true);
    expect(await isSettled(requests)).toBe(false);
    requests.onDisconnected((key) => key !== 'goods:300');
    expect(await isSettled(requests)).toBe(false);
    requests.onDisconnected();
    expect(await isSettled(requests)).toBe(true);
  });
});
