import { beforeAll, describe, expect, it } from '@jest/globals';
import { type Campaign, carryOut } from '../support/chaos/campaign.js';
import { FAULTS } from '../support/chaos/faults/index.js';
import type { RunOrder } from '../support/chaos/run.js';
import { PERMITS } from '../support/chaos/workload/kinds.js';
import type { StoreName } from '../support/chaos/workload/orders.js';

/** One fault for each kind of breach, for the fence, for replaced masters, and for shared locks. */
const SHORT = [
  'holder stopped',
  'event loop blocked',
  'queue head killed',
  'FLUSHALL',
  'SCRIPT FLUSH',
  'connection reset',
  'half-open: replies lost',
  'Sentinel failover, replicas: { min: 1 }',
  'CLUSTER FAILOVER',
  'partition, old master writable',
  'reader stopped',
  'permit holder stopped',
  'CLIENT PAUSE',
  'maxmemory, noeviction',
  'delays that differ',
  'deployment',
  'released by force',
];

/** A short set of `npm run chaos` with a fixed seed. */
describe('a few faults, each with its defence and without it', () => {
  const orderOf = (name: string, store: StoreName, control: boolean): RunOrder => {
    const fault = FAULTS.find((one) => one.name === name);
    if (fault === undefined) throw new Error(`there is no fault ${name}`);
    return { fault, store, seed: 1, times: 1, control };
  };
  const orders = [
    ...SHORT.flatMap((name) => [orderOf(name, 'token', false), orderOf(name, 'token', true)]),
    orderOf('holder stopped', 'quorum', false),
    orderOf('holder stopped', 'redisson', false),
  ];
  let campaign: Campaign;

  beforeAll(async () => {
    const say = (line: string): void => void process.stderr.write(`${line}\n`);
    campaign = await carryOut(orders, { jobs: 2, say });
  });

  it('break no promise with the defence, and one each without it', () => {
    expect(campaign.failures).toEqual([]);
  });

  it('all run', () => {
    expect(campaign.runs).toHaveLength(SHORT.length + 2);
    expect(campaign.controls).toHaveLength(SHORT.length);
  });

  it('lose updates without a fence, and none with it', () => {
    const lost = (pick: 'lostUpdates' | 'lostBehindFence') =>
      campaign.runs.reduce((sum, { findings }) => sum + findings[pick].length, 0);
    expect(lost('lostBehindFence')).toBe(0);
    expect(lost('lostUpdates')).toBeGreaterThan(0);
  });

  it('tear the read of a reader that was stopped past its lease', () => {
    const of = (name: string) => campaign.runs.find(({ order }) => order.fault.name === name)?.findings;
    expect(of('reader stopped')?.tornReads).toEqual([expect.objectContaining({ trusted: false })]);
    expect(of('reader stopped')?.mostAtOnce).toBeGreaterThan(1);
    expect(of('permit holder stopped')?.mostAtOnce).toBe(PERMITS);
  });
});
