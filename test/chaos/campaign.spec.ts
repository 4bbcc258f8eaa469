import { describe, expect, it } from '@jest/globals';
import { carryOut } from '../support/chaos/campaign.js';
import { FAULTS } from '../support/chaos/faults/index.js';
import { check } from '../support/chaos/history/checker.js';
import type { Breach } from '../support/chaos/history/promises.js';
import { Misbehaviour, type RunOrder, type RunResult } from '../support/chaos/run.js';

const [fault] = FAULTS;
const ORDER: RunOrder = { fault, store: 'token', seed: 1, times: 1, control: false };
const CONTROL: RunOrder = { ...ORDER, control: true };

const NOTHING = { events: [], register: [], fenced: [], set: [], leftovers: [] };
const findings = check(NOTHING, { longWaitMs: 1, tokens: 'clock' });
const breaking =
  (...breaches: readonly Breach[]) =>
  (order: RunOrder): RunResult => ({
    order,
    findings,
    breaches: new Map(breaches.map((breach) => [breach, 'what'])),
    version: '7',
  });

/** Runs orders whose runs end as given, one after another. The last end is repeated. */
async function campaign(orders: readonly RunOrder[], ...ends: readonly ((order: RunOrder) => RunResult)[]) {
  const seeds: number[] = [];
  const run = async (order: RunOrder): Promise<RunResult> => {
    const end = ends[Math.min(seeds.length, ends.length - 1)];
    seeds.push(order.seed);
    return end(order);
  };
  return { ...(await carryOut(orders, { jobs: 1, say: () => undefined, run })), seeds };
}

const failing = (error: Error) => (): never => {
  throw error;
};

describe('a campaign', () => {
  it('passes if runs keep their promises and controls break theirs', async () => {
    const { failures, runs, controls } = await campaign([ORDER, CONTROL], breaking(), breaking(fault.breaks));
    expect(failures).toEqual([]);
    expect([runs.length, controls.length]).toEqual([1, 1]);
  });

  it('fails if a promise is broken', async () => {
    const { failures, runs } = await campaign([ORDER], breaking('leftover'));
    expect(failures).toEqual([expect.stringContaining('leftover: what')]);
    expect(runs).toHaveLength(1);
  });

  it('fails if a control never breaks its own promise, whatever else it breaks', async () => {
    expect(fault.breaks).not.toBe('wait');
    const { failures, controls, seeds } = await campaign([CONTROL], breaking('wait'));
    expect(failures).toEqual([expect.stringContaining('never broke')]);
    expect(controls).toEqual([]);
    expect(seeds).toEqual([1, 2, 3]);
  });

  it('runs a control three times until it breaks its promise', async () => {
    const { failures, controls } = await campaign([CONTROL], breaking(), breaking(), breaking(fault.breaks));
    expect(failures).toEqual([]);
    expect(controls).toEqual([expect.objectContaining({ attempts: 3 })]);
  });

  it('repeats a run that could not be carried out, once', async () => {
    const port = failing(new Error('port'));
    expect((await campaign([ORDER], port, breaking())).failures).toEqual([]);
    expect((await campaign([ORDER], port, port, breaking())).failures).toEqual([expect.stringContaining('port')]);
  });

  it('does not repeat a run in which a process misbehaved', async () => {
    const { failures } = await campaign([ORDER], failing(new Misbehaviour('p1 crashed')), breaking());
    expect(failures).toEqual([expect.stringContaining('p1 crashed')]);
  });
});
