import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

const HOOKS = ['--import', './test/support/typescript-hooks.mjs'];

interface Found {
  readonly found: Record<string, unknown>;
  readonly lines: readonly string[];
  readonly leaked: readonly (readonly (string | undefined)[])[];
}

async function run(environment: string): Promise<Found> {
  const args = ['--expose-gc', ...HOOKS, 'test/support/leak-worker.ts'];
  const env = { ...process.env, NODE_ENV: environment };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env, timeout: 600_000 });
  return JSON.parse(stdout) as Found;
}

describe('a handle that is collected after a renewal and without a release', () => {
  it.each([
    ['development', /acquired at Cart\.open \(.*leak-worker\.ts:\d+:\d+\)/],
    ['production', /NODE_ENV is production, so the place is not known\./],
  ])('is found and released in %s, and no other is', async (environment, place) => {
    const { found, lines, leaked } = await run(environment);
    expect(found).toEqual({
      acquire: true,
      tryAcquire: true,
      list: [true, true],
      'list of two families': [true, true],
      object: true,
      nested: true,
      shared: true,
      scope: [true, true],
      'after its scope': true,
      'not renewed': true,
      'not renewed yet': true,
      // Kept by its signal, lost, kept again, even without its signal.
      signal: [true, true, true, true],
      timer: [true, true],
    });
    // The collector finds the locks of a list in any order.
    const names = leaked.map(([resource = '']) => resource).toSorted();
    const goods = [1, 2, 3, 4, 5, 6, 7].map((id) => `goods:${id}`);
    expect(names).toEqual(['cart:1', ...goods, 'other:1', 'scope:1', 'scope:2']);
    const warnings = lines.filter((line) => line.includes('was collected by the garbage collector'));
    expect(warnings).toHaveLength(10);
    expect(warnings[9]).toContain('No more are logged in this minute.');
    expect(warnings.find((line) => line.startsWith('The handle of the lock on cart:1 (request 7) '))).toMatch(place);
  });
});
