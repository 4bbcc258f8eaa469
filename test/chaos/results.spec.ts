import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { FAULTS } from './faults/index.js';
import { planOf } from './plan.js';
import { commandOf, CONTROL_COLUMNS, RUN_COLUMNS } from './results.js';
import { STORES } from './workload/orders.js';

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

describe('test/chaos/RESULTS.md', () => {
  const text = readFileSync(join(__dirname, 'RESULTS.md'), 'utf8');
  const [runs, controls] = tablesOf(text);
  const namesOf = (rows: readonly Record<string, string>[]) => rows.map(({ fault, store }) => [fault, store].join());

  it('says what it was made with', () => {
    expect(text).toMatch(/npm run chaos -- --seed \d+( --(jobs|soak-minutes) [\d.]+)*`/);
    expect(text).toMatch(/Redis \d+\.\d+\.\d+, Node v\d+\.\d+\.\d+, ioredis \d+\.\d+\.\d+, commit [0-9a-f]{7,}\./);
  });

  it('has a row for each fault on each store that it applies to, and a control for each fault', () => {
    const expected = FAULTS.flatMap(({ name, stores }) =>
      STORES.filter((store) => stores[store] !== undefined).map((store) => `${name},${store}`),
    );
    expect(Object.keys(runs[0])).toEqual([...RUN_COLUMNS]);
    expect(Object.keys(controls[0])).toEqual([...CONTROL_COLUMNS]);
    expect(namesOf(runs).toSorted()).toEqual(expected.toSorted());
    expect(controls.map(({ fault }) => fault).toSorted()).toEqual(FAULTS.map(({ name }) => name).toSorted());
  });

  it('has a number in each place, and no update that was lost behind a fence', () => {
    for (const row of runs) {
      const { fault, store, 'lost updates with fence': fenced, ...numbers } = row;
      expect([fault, store, fenced]).toEqual([fault, store, store === 'timestamp' ? 'no tokens' : '0']);
      for (const number of Object.values(numbers)) expect(number).toMatch(/^\d{1,3}(,\d{3})*$/);
      expect(row['acquisitions']).not.toBe('0');
    }
  });

  it('tells what broke in each control', () => {
    for (const control of controls) expect(control['without it']).toMatch(/^[a-z ]+: .*\d/);
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
