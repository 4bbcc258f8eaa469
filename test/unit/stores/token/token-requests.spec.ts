import { describe, expect, it } from '@jest/globals';
import { SystemClock } from '../../../../lib/core/time/clock.js';
import { whenReplied } from '../../../../lib/core/store/pending-reply.js';
import {
  type DeadlineReply,
  DeadlineRequests,
  NOT_SENT,
  PendingRequests,
} from '../../../../lib/redis/deadline-requests.js';
import type { RedisConnection } from '../../../../lib/redis/redis-connection.js';
import type { RedisNode } from '../../../../lib/redis/topology.js';
import { QueuedOwners } from '../../../../lib/stores/token/queued-owners.js';
import { TokenRequests } from '../../../../lib/stores/token/token-requests.js';
import type { ReleaseReply } from '../../../../lib/stores/token/token-scripts.js';
import type { TokenTopology } from '../../../../lib/stores/token/token-topology.js';

interface Events {
  onGranted(owner: string, key: string): void;
  onReleased(owner: string): void;
}

/** Requests to a server that gives these replies, and none to further requests. */
function requestsTo(
  replies: readonly (ReleaseReply | DeadlineReply)[],
  events: Partial<Events> = {},
  parts: Partial<TokenTopology> = {},
) {
  const left = [...replies];
  const request: TokenTopology['request'] = (_key, sent) => {
    const reply = left.shift();
    if (reply !== undefined) sent.onReply(reply as never);
  };
  const sendToNode = () => new Promise(() => undefined);
  const topology = { scriptGroupOf: () => '', cancelPending: () => false, request, sendToNode, ...parts };
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

const fail = (error: unknown): never => {
  throw error;
};

const release = {
  keys: ['goods:300'],
  owner: 'one:1',
  mode: 'shared',
  closedForMs: 0,
  handoffMs: 1_200,
  tokens: 1,
} as const;

describe('requests that are sent while other code of the instance runs', () => {
  const logged = (reply: PromiseLike<unknown>): unknown[] => {
    const log: unknown[] = [];
    const note = (outcome: unknown): void => void log.push(outcome);
    whenReplied(reply, { onReply: note, onFailed: note });
    return log;
  };

  it('fail later if there is no connection', async () => {
    const request: TokenTopology['request'] = (_key, sent) => sent.send({ failsFast: false } as RedisNode, sent);
    const requests = requestsTo([], {}, { request });
    const log = logged(requests.release({ ...release, closedForMs: 5 }));
    requests.flush();
    expect(log).toEqual([]);
    await new Promise(setImmediate);
    expect(log).toEqual([expect.objectContaining({ code: 'LOCK_UNAVAILABLE' })]);
  });

  it('get the reply later that they are too late', async () => {
    const connection = { microsAt: () => 1 } as unknown as RedisConnection;
    const log: unknown[] = [];
    const onReply = (reply: DeadlineReply): void => void log.push(reply);
    const requests = new DeadlineRequests(connection, { now: () => 10 } as SystemClock, new PendingRequests());
    const acquire = { ...release, leaseMs: 5, queue: false, expiresAt: 5 };
    requests.sendWithDeadline({ request: acquire, run: fail }, { onReply, onFailed: fail });
    expect(log).toEqual([]);
    await new Promise(setImmediate);
    expect(log).toEqual([NOT_SENT]);
  });

  it('fail if the client throws once the time of the server is known', async () => {
    let time: number | undefined;
    const synchronise = async (): Promise<void> => void (time = 1);
    const connection = { microsAt: () => time, synchronise } as unknown as RedisConnection;
    const requests = new DeadlineRequests(connection, { now: () => 0 } as SystemClock, new PendingRequests());
    const request = { ...release, leaseMs: 5, queue: false, expiresAt: 5 };
    const run = (): never => fail(new Error('the client throws'));
    const failed = new Promise((onFailed) => requests.sendWithDeadline({ request, run }, { onReply: fail, onFailed }));
    expect(await failed).toEqual(new Error('the client throws'));
  });

  it('go apart if they are of two instances', () => {
    const sent: string[] = [];
    const request: TokenTopology['request'] = (key) => void sent.push(key);
    const requests = requestsTo([], {}, { request });
    for (const owner of ['one:1', 'another:1'])
      logged(requests.acquire({ ...release, owner, keys: [owner], leaseMs: 5, queue: false, expiresAt: 5 }));
    requests.flush();
    expect(sent).toEqual(['one:1', 'another:1']);
  });
});

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
