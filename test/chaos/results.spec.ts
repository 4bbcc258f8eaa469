import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type Fault, FAULTS } from './faults/index.js';
import { check, type Findings } from './history/checker.js';
import { planOf } from './plan.js';
import { commandOf, CONTROL_COLUMNS, resultsOf, RUN_COLUMNS, SHARING_COLUMNS } from './results.js';
import { PERMITS, WORKLOADS } from './workload/kinds.js';
import { STORES } from './workload/orders.js';

const NUMBER = /^\d{1,3}(,\d{3})*$/;

const isSharing = ({ workload }: Fault): boolean => workload !== undefined;

/** The tables of the file, by their columns' names. */
function tablesOf(text: string): readonly Record<string, string>[][] {
  const cells = (line: string): string[] =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
  return [...text.matchAll(/(?:^\|.*\n)+/gm)].map(([table]) => {
    const [head, , ...rows] = table.trimEnd().split('\n').map(cells);
    return rows.map((row) => Object.fromEntries(head.map((column, i) => [column, row[i]])));
  });
}

/** The one that has these columns; nothing if none has. */
function tableWith(text: string, columns: readonly string[]): readonly Record<string, string>[] {
  return tablesOf(text).find(([row = {}]) => Object.keys(row).join() === columns.join()) ?? [];
}

describe('test/chaos/RESULTS.md', () => {
  const text = readFileSync(join(__dirname, 'RESULTS.md'), 'utf8');
  const sharing = tableWith(text, SHARING_COLUMNS);
  const runs = tableWith(text, RUN_COLUMNS);
  const controls = tableWith(text, CONTROL_COLUMNS);
  const namesOf = (rows: readonly Record<string, string>[]) => rows.map(({ fault, store }) => [fault, store].join());

  it('says what it was made with', () => {
    expect(text).toMatch(/npm run chaos -- --seed \d+( --(jobs|soak-minutes) [\d.]+)*`/);
    expect(text).toMatch(/Redis \d+\.\d+\.\d+, Node v\d+\.\d+\.\d+, ioredis \d+\.\d+\.\d+, commit [0-9a-f]{7,}\./);
  });

  it('has a row for each fault on each store that it applies to, and a control for each fault', () => {
    const expected = FAULTS.filter((fault) => !isSharing(fault)).flatMap(({ name, stores }) =>
      STORES.filter((store) => stores[store] !== undefined).map((store) => `${name},${store}`),
    );
    const shared = FAULTS.filter(isSharing).map(
      ({ name, workload = 'alone' }) => `${name},${WORKLOADS[workload].told}`,
    );
    expect(namesOf(runs).toSorted()).toEqual(expected.toSorted());
    expect(sharing.map(({ fault, lock }) => `${fault},${lock}`).toSorted()).toEqual(shared.toSorted());
    expect(controls.map(({ fault }) => fault).toSorted()).toEqual(FAULTS.map(({ name }) => name).toSorted());
  });

  it('has a number in each place, and no update that was lost behind a fence', () => {
    for (const row of runs) {
      const { fault, store, 'lost updates with fence': fenced, ...numbers } = row;
      expect([fault, store, fenced]).toEqual([fault, store, store === 'timestamp' ? 'no tokens' : '0']);
      for (const number of Object.values(numbers)) expect(number).toMatch(NUMBER);
      expect(row['acquisitions']).not.toBe('0');
    }
    for (const { fault, lock: _, ...numbers } of sharing) {
      for (const number of Object.values(numbers))
        expect([fault, number]).toEqual([fault, expect.stringMatching(NUMBER)]);
      expect([fault, numbers['lost updates with fence']]).toEqual([fault, '0']);
      // Otherwise nothing was shared.
      expect(Number(numbers['most at once'])).toBeGreaterThan(1);
    }
  });

  it('tells what broke in each control', () => {
    for (const control of controls) expect(control['without it']).toMatch(/^[a-z ]+: .*\d/);
  });
});

describe('the report', () => {
  const head = { seed: 7, command: 'npm run chaos', versions: 'Redis 7', date: '2026-11-21' };
  const nothing = check(
    { events: [], register: [], fenced: [], set: [], leftovers: [] },
    { longWaitMs: 1, tokens: 'clock' },
  );
  const told = (fault: Fault, findings: Partial<Findings>): string => {
    const order = { fault, store: 'token', seed: 1, times: 2, control: false } as const;
    const result = { order, findings: { ...nothing, ...findings }, breaches: new Map(), version: '7' };
    return resultsOf({ runs: [result], controls: [], failures: [] }, head);
  };
  const [alone] = FAULTS;
  const shared = FAULTS.find(({ workload }) => workload === 'permits') as Fault;

  it('has locks that were shared in a table of their own', () => {
    const text = told(shared, {
      acquisitions: 1_500,
      shared: 1_400,
      mostAtOnce: 3,
      tornReads: [{ op: 'a', believed: false }],
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

  it('has the others in another one', () => {
    const text = told(alone, { acquisitions: 9 });
    expect(tableWith(text, RUN_COLUMNS)).toEqual([expect.objectContaining({ fault: alone.name, acquisitions: '9' })]);
    expect(tableWith(text, SHARING_COLUMNS)).toEqual([]);
  });
});

describe('the command', () => {
  it('repeats a run: with its seed, given or drawn, and all else that was given', () => {
    expect(commandOf(7, { quick: false, fault: undefined })).toBe('npm run chaos -- --seed 7');
    expect(commandOf(7, { quick: true, seed: '7', fault: "a 'b'", 'soak-minutes': '0.5' })).toBe(
      "npm run chaos -- --seed 7 --quick --fault 'a '\\''b'\\''' --soak-minutes 0.5",
    );
  });
});

describe('the plan', () => {
  const choicesOf = (options: Partial<Parameters<typeof planOf>[0]>) =>
    planOf({ seed: 7, quick: false, ...options }).map(({ fault, store, seed }) => [fault.name, store, seed]);

  it('is the same for the same seed, and another for another', () => {
    expect(choicesOf({})).toEqual(choicesOf({}));
    expect(choicesOf({})).not.toEqual(choicesOf({ seed: 8 }));
  });

  it('repeats what a fault did among the others when it is run alone', () => {
    const alone = choicesOf({ fault: 'FLUSHALL' });
    expect(alone.length).toBeGreaterThan(STORES.length);
    expect(choicesOf({})).toEqual(expect.arrayContaining(alone));
  });

  it('has a control for every fault', () => {
    const controlled = planOf({ seed: 7, quick: false }).filter(({ control }) => control);
    expect(controlled.map(({ fault }) => fault.name)).toEqual(FAULTS.map(({ name }) => name));
  });
});
