import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type Fault, FAULTS } from '../../test/support/chaos/faults/index.js';
import { shares, WORKLOADS } from '../../test/support/chaos/workload/kinds.js';
import { storesOf } from './campaign.js';
import { CONTROL_COLUMNS, RUN_COLUMNS, SHARING_COLUMNS, WAIT_COLUMNS } from './results.js';

const NUMBER = /^\d{1,3}(,\d{3})*$/;

/** These faults lose the data. Tokens of Redisson restart, so a fence may admit two holders with one token. */
const COUNTED_ANEW = ['server restarted empty', 'FLUSHALL'];

const isSharing = ({ workload = 'alone' }: Fault): boolean => shares(workload);

/** Returns the rows of the table with these columns, keyed by column. */
function tableWith(text: string, columns: readonly string[]): readonly Record<string, string>[] {
  const tables = [...text.matchAll(/(?:^\|.*\n)+/gm)].map(([table]) =>
    table
      .trimEnd()
      .split('\n')
      .map((line) =>
        line
          .slice(1, -1)
          .split('|')
          .map((cell) => cell.trim()),
      ),
  );
  const [, , ...rows] = tables.find(([head]) => head.join() === columns.join()) ?? [];
  return rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i]])));
}

describe('labs/chaos/RESULTS.md', () => {
  const text = readFileSync(join(__dirname, 'RESULTS.md'), 'utf8');
  const sharing = tableWith(text, SHARING_COLUMNS);
  const runs = tableWith(text, RUN_COLUMNS);
  const controls = tableWith(text, CONTROL_COLUMNS);
  const namesOf = (rows: readonly Record<string, string>[]) => rows.map(({ fault, store }) => [fault, store].join());

  it('names its command and versions', () => {
    expect(text).toMatch(/npm run chaos -- --seed \d+( --resume| --(runs|jobs|soak-minutes) [\d.]+)*`/);
    expect(text).toMatch(
      /Redis \d+\.\d+\.\d+, Node v\d+\.\d+\.\d+, ioredis \d+\.\d+\.\d+, commit [0-9a-f]{7,}(, [0-9a-f]{7,})*\./,
    );
  });

  it('has a row for each fault and store, and a control for each', () => {
    const [alone, sharers] = [false, true].map((shared) => FAULTS.filter((fault) => isSharing(fault) === shared));
    const expected = alone.flatMap((fault) => storesOf(fault).map((store) => `${fault.name},${store}`));
    const shared = sharers.map(({ name, workload = 'alone' }) => `${name},${WORKLOADS[workload].label}`);
    expect(namesOf(runs).toSorted()).toEqual(expected.toSorted());
    expect(sharing.map(({ fault, lock }) => `${fault},${lock}`).toSorted()).toEqual(shared.toSorted());
    expect(controls.map(({ fault }) => fault).toSorted()).toEqual(FAULTS.map(({ name }) => name).toSorted());
  });

  it('has a number in each cell, and no lost update with a fence', () => {
    for (const row of runs) {
      const { fault, store, 'lost updates with fence': fenced, ...numbers } = row;
      const mayLose = store === 'redisson' && COUNTED_ANEW.includes(fault);
      const expected = store === 'timestamp' ? /^no tokens$/ : mayLose ? NUMBER : /^0$/;
      expect([fault, store, fenced]).toEqual([fault, store, expect.stringMatching(expected)]);
      for (const number of Object.values(numbers)) expect(number).toMatch(NUMBER);
      expect([fault, store, row['runs']]).toEqual([fault, store, expect.stringMatching(/^[1-9]\d*$/)]);
      expect(row['acquisitions']).not.toBe('0');
    }
    for (const { fault, lock: _, ...numbers } of sharing) {
      for (const number of Object.values(numbers))
        expect([fault, number]).toEqual([fault, expect.stringMatching(NUMBER)]);
      expect([fault, numbers['lost updates with fence']]).toEqual([fault, '0']);
      // Otherwise the lock was not shared.
      expect(Number(numbers['most at once'])).toBeGreaterThan(1);
    }
  });

  it('has no wait for a free lock that is longer than promised', () => {
    const waits = tableWith(text, WAIT_COLUMNS);
    const limited = FAULTS.filter(({ promises }) => promises.freeMs !== undefined);
    expect(waits.map(({ fault }) => fault)).toEqual(expect.arrayContaining(limited.map(({ name }) => name)));
    const msOf = (cell: string): number => Number(cell.replaceAll(',', ''));
    for (const row of waits) expect(msOf(row['free meanwhile, ms'])).toBeLessThanOrEqual(msOf(row['promised, ms']));
  });

  it('names the breach of each control', () => {
    for (const control of controls) expect(control['without it']).toMatch(/^[a-z ]+: .*\d/);
  });
});
