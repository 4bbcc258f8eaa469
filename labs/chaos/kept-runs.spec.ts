import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { FAULTS } from '../../test/support/chaos/faults/index.js';
import { check } from '../../test/support/chaos/history/checker.js';
import type { Breach } from '../../test/support/chaos/history/promises.js';
import { KeptRuns } from './kept-runs.js';
import type { RunOrder, RunResult } from '../../test/support/chaos/run.js';

const [fault] = FAULTS;
const ORDER: RunOrder = { fault, store: 'token', seed: 1, times: 1, control: false };
const NOTHING = { events: [], register: [], fenced: [], set: [], leftovers: [] };

describe('the results of a campaign', () => {
  let folder: string;
  let ran: RunOrder[];
  const file = (): string => join(folder, 'runs', 'seed-1');
  const keptBy = (commit: string): KeptRuns => new KeptRuns(file(), commit);

  /** Runs an order whose recovery took for ever. */
  const running =
    (...breaches: readonly Breach[]) =>
    async (order: RunOrder): Promise<RunResult> => {
      ran.push(order);
      const findings = { ...check(NOTHING, { longWaitMs: 1, tokens: 'clock' }), recoveryMs: Infinity };
      return { order, findings, breaches: new Map(breaches.map((breach) => [breach, 'what'])), version: '7' };
    };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'kept-'));
    ran = [];
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  it('are not run again by a campaign that resumes', async () => {
    const first = await keptBy('a').run(ORDER, running());
    const resumed = keptBy('b');
    expect(resumed.resume()).toBe(1);
    await expect(resumed.run(ORDER, running())).resolves.toMatchObject(first);
    expect(ran).toEqual([ORDER]);
  });

  it('name each commit', async () => {
    await keptBy('a').run(ORDER, running());
    const resumed = keptBy('b');
    resumed.resume();
    await resumed.run({ ...ORDER, seed: 2 }, running());
    expect(resumed.commits).toEqual(['a', 'b']);
  });

  it('are run again if they broke a promise', async () => {
    await keptBy('a').run(ORDER, running('leftover'));
    const resumed = keptBy('a');
    expect(resumed.resume()).toBe(0);
    await resumed.run(ORDER, running());
    expect(ran).toHaveLength(2);
  });

  it('include what a control broke', async () => {
    const control = { ...ORDER, control: true };
    await keptBy('a').run(control, running('leftover'));
    const resumed = keptBy('a');
    resumed.resume();
    const { breaches } = await resumed.run(control, running());
    expect(breaches).toEqual(new Map([['leftover', 'what']]));
  });

  it('are removed by a campaign that does not resume', async () => {
    await keptBy('a').run(ORDER, running());
    keptBy('a').clear();
    expect(keptBy('a').resume()).toBe(0);
  });
});
