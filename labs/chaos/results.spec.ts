import { describe, expect, it } from '@jest/globals';
import { type Fault, FAULTS } from '../../test/support/chaos/faults/index.js';
import { check, type Findings } from '../../test/support/chaos/history/checker.js';
import { planOf } from '../../test/support/chaos/plan.js';
import { commandOf, resultsOf, RUN_COLUMNS, SHARING_COLUMNS } from './results.js';
import { tableWith } from './tables.js';
import { PERMITS } from '../../test/support/chaos/workload/kinds.js';
import { STORES } from '../../test/support/chaos/workload/orders.js';

describe('the report', () => {
  const head = { seed: 7, command: 'npm run chaos', versions: 'Redis 7', date: '2026-11-21' };
  const nothing = check(
    { events: [], register: [], fenced: [], set: [], leftovers: [] },
    { longWaitMs: 1, tokens: 'clock' },
  );
  const reportOf = (fault: Fault, findings: Partial<Findings>): string => {
    const order = { fault, store: 'token', seed: 1, times: 2, control: false } as const;
    const result = { order, findings: { ...nothing, ...findings }, breaches: new Map(), version: '7' };
    return resultsOf({ runs: [result], controls: [], failures: [] }, head);
  };
  const [alone] = FAULTS;
  const shared = FAULTS.find(({ workload }) => workload === 'permits') as Fault;

  it('lists runs with a shared lock in their own table', () => {
    const text = reportOf(shared, {
      acquisitions: 1_500,
      shared: 1_400,
      mostAtOnce: 3,
      tornReads: [{ op: 'a', trusted: false }],
    });
    expect(tableWith(text, SHARING_COLUMNS)).toEqual([
      expect.objectContaining({
        fault: shared.name,
        lock: `${PERMITS} permits`,
        runs: '2',
        'acquisitions, shared': '1,400',
        'acquisitions, alone': '100',
        'most at once': '3',
        overlaps: '0',
        'torn readings': '1',
        'lost updates with fence': '0',
      }),
    ]);
    expect(tableWith(text, RUN_COLUMNS)).toEqual([]);
  });

  it('lists several runs of a fault in one row', () => {
    const order = { fault: alone, store: 'token', seed: 1, times: 1, control: false } as const;
    const result = { order, findings: { ...nothing, acquisitions: 4 }, breaches: new Map(), version: '7' };
    const other = { ...result, findings: { ...nothing, acquisitions: 5, longestWaitMs: 9, recoveryMs: 3 } };
    const elsewhere = { ...result, order: { ...order, store: 'quorum' } as const };
    const text = resultsOf({ runs: [result, elsewhere, other], controls: [], failures: [] }, head);
    expect(tableWith(text, RUN_COLUMNS)).toEqual([
      expect.objectContaining({ store: 'token', runs: '2', acquisitions: '9', 'longest wait, ms': '9' }),
      expect.objectContaining({ store: 'quorum', runs: '1', acquisitions: '4', 'longest wait, ms': '0' }),
    ]);
  });

  it('lists the other runs in another table', () => {
    const text = reportOf(alone, { acquisitions: 9 });
    expect(tableWith(text, RUN_COLUMNS)).toEqual([expect.objectContaining({ fault: alone.name, acquisitions: '9' })]);
    expect(tableWith(text, SHARING_COLUMNS)).toEqual([]);
  });
});

describe('the command', () => {
  it('repeats a run with its seed and its options', () => {
    expect(commandOf(7, { quick: false, fault: undefined })).toBe('npm run chaos -- --seed 7');
    expect(commandOf(7, { quick: true, seed: '7', fault: "a 'b'", 'soak-minutes': '0.5' })).toBe(
      "npm run chaos -- --seed 7 --quick --fault 'a '\\''b'\\''' --soak-minutes 0.5",
    );
  });
});

describe('the plan', () => {
  const choicesOf = (options: Partial<Parameters<typeof planOf>[0]>) =>
    planOf({ seed: 7, quick: false, ...options }).map(({ fault, store, seed }) => [fault.name, store, seed]);

  it('depends on the seed only', () => {
    expect(choicesOf({})).toEqual(choicesOf({}));
    expect(choicesOf({})).not.toEqual(choicesOf({ seed: 8 }));
  });

  it('repeats a fault’s choices if the fault is run alone', () => {
    const alone = choicesOf({ fault: 'FLUSHALL' });
    expect(alone.length).toBeGreaterThan(STORES.length);
    expect(choicesOf({})).toEqual(expect.arrayContaining(alone));
  });

  it('injects every fault five times on each store', () => {
    const times = new Map<string, number>();
    for (const { fault, store, times: count, control } of planOf({ seed: 7, quick: false })) {
      const row = `${fault.name}, ${store}`;
      if (!control) times.set(row, (times.get(row) ?? 0) + count);
    }
    expect(new Set(times.values())).toEqual(new Set([5]));
  });

  it('has a control for every fault', () => {
    const controlled = planOf({ seed: 7, quick: false }).filter(({ control }) => control);
    expect(controlled.map(({ fault }) => fault.name)).toEqual(FAULTS.map(({ name }) => name));
  });
});
