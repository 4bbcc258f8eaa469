// The same with a real cluster is in test/integration/token/cluster-replicas.slow.spec.ts.
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { ExtendRequest } from '../../../../../lib/core/store/lock-store.js';
import { ClusterAcks } from '../../../../../lib/stores/token/replication/cluster-acks.js';
import { outcome } from '../../../../support/async.js';
import { FakeReplicated } from '../../../../support/fake-replicated.js';

/** A node of a cluster, with a replica. */
class Node {
  readonly connection = new FakeReplicated();
  readonly client = { open: () => this.connection, watch: () => () => undefined };
  constructor(readonly address: string) {}
}

const [first, second] = ['goods:1', 'goods:2'];

let clock: ManualClock;
let nodes: Record<string, Node>;
let acks: ClusterAcks;

beforeEach(() => {
  clock = new ManualClock();
  nodes = { [first]: new Node('a:1'), [second]: new Node('b:1') };
  const topology = {
    secret: 'secret',
    keysOf: (key: string) => [key, `${key}|fence`, `${key}|queue`] as const,
    byNode: (requests: readonly ExtendRequest[]) => new Map(requests.map((each) => [nodes[each.keys[0]], [each]])),
    targetOf: () => nodes[second],
    refresh: () => undefined,
  };
  const log = { warn: () => undefined, info: () => undefined };
  acks = new ClusterAcks(topology as never, { min: 1, timeoutMs: 50 }, clock, 1_000, log);
});

/** Waits until the replicas of the nodes have these locks. */
async function confirm(...keys: string[]): Promise<unknown> {
  const requests = keys.map((key) => ({ keys: [key], owner: 'one:1', mode: 'exclusive', leaseMs: 30_000 }));
  const confirmed = outcome(acks.confirm(requests as unknown as ExtendRequest[]));
  for (const { connection } of Object.values(nodes)) {
    await clock.advance(0);
    if (connection.status === 'connecting') connection.becomeReady();
  }
  await clock.advance(0);
  return confirmed.value;
}

describe('the replicas of a cluster', () => {
  it('acknowledge each lock at the node that has it', async () => {
    expect(await confirm(first, second)).toEqual(['renewed', 'renewed']);
    expect(nodes[first].connection.written).toEqual([first]);
    expect(nodes[second].connection.written).toEqual([second]);
  });

  it('acknowledge a lock whose slot has moved at the node that has it now', async () => {
    nodes[first].connection.refusal = 'MOVED 1 b:1';
    expect(await confirm(first)).toEqual(['renewed']);
    expect(nodes[second].connection.written).toEqual([first]);
  });
});
