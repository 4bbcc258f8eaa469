import { describe, expect, it } from '@jest/globals';
import { SystemClock } from '../../../../lib/core/time/clock.js';
import type { DeadlineReply } from '../../../../lib/redis/deadline-requests.js';
import { QueuedOwners } from '../../../../lib/stores/token/queued-owners.js';
import { TokenRequests } from '../../../../lib/stores/token/token-requests.js';
import type { ReleaseReply } from '../../../../lib/stores/token/token-scripts.js';
import type { TokenTopology } from '../../../../lib/stores/token/token-topology.js';

interface Events {
  onGranted(owner: string, key: string): void;
  onReleased(owner: string): void;
}

/** Requests to a server that gives these replies, and none to further requests. */
function requestsTo(replies: readonly (ReleaseReply | DeadlineReply)[], events: Partial<Events> = {}) {
  const left = [...replies];
  const request: TokenTopology['request'] = (_key, _send, { onReply }) => {
    const reply = left.shift();
    return reply === undefined ? new Promise(() => undefined) : Promise.resolve(onReply(reply as never));
  };
  const sendToNode = () => new Promise(() => undefined);
  const topology = { scriptGroupOf: () => '', cancelPending: () => false, request, sendToNode };
  const subscription = {
    isSubscribed: () => false,
    open: () => undefined,
    onGranted: () => undefined,
    onReleased: () => undefined,
    ...events,
  };
  return new TokenRequests(topology as unknown as TokenTopology, new SystemClock(), new QueuedOwners(), subscription);
}

describe('the locks of one request', () => {
  it('are reported as released with the last of them', async () => {
    const events: string[] = [];
    const request = { ...release, keys: ['goods:1', 'goods:2', 'goods:3'], mode: 'exclusive' } as const;
    const requests = requestsTo([{ status: 1, value: 7, now: 0 }], {
      onGranted: (owner, key) => events.push(`granted ${owner} ${key}`),
      onReleased: (owner) => events.push(`released ${owner}`),
    });
    await requests.acquire({ ...request, leaseMs: 30_000, queue: false, expiresAt: Infinity });
    const end = (key: string): void => void requests.release({ ...request, keys: [key] });
    end('goods:1');
    // A release is repeated.
    end('goods:1');
    end('goods:3');
    expect(events).toEqual(['granted one:1 goods:1']);
    end('goods:2');
    end('goods:2');
    expect(events.slice(1)).toEqual(['released one:1', 'released one:1']);
  });
});

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
  closedForMs: 0,
  handoffMs: 1_200,
  tokens: 1,
} as const;

describe('a release that has to run again', () => {
  it('is sent again, and waited for', async () => {
    const again = { wasHeld: true, repeat: true };
    const requests = requestsTo([again, again, { wasHeld: false, repeat: false }]);
    expect(await requests.release(release)).toBe(true);
    await requests.settled();
    expect(await isSettled(requests)).toBe(true);
  });

  it('is not waited for once its connection has ended', async () => {
    const requests = requestsTo([{ wasHeld: true, repeat: true }]);
    expect(await requests.release(release)).toBe(true);
    expect(await isSettled(requests)).toBe(false);
    requests.onDisconnected((key) => key !== 'goods:300');
    expect(await isSettled(requests)).toBe(false);
    requests.onDisconnected();
    expect(await isSettled(requests)).toBe(true);
  });
});
