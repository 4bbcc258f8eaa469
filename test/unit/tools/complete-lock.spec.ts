import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

const ROOT = resolve(__dirname, '../../..');
const TOOL = join(ROOT, '.ci/complete-lock.mjs');
const GOOD = { version: '1.0.0', integrity: `sha512-${'a'.repeat(86)}==` };

let folder: string;

function put(file: string, value: unknown): void {
  mkdirSync(join(folder, file, '..'), { recursive: true });
  writeFileSync(join(folder, file), JSON.stringify(value));
}

/** Writes a lock file with one package. */
function lock(name: string, entry: object): void {
  put('package-lock.json', { packages: { '': { name: 'root' }, [`node_modules/${name}`]: entry } });
}

function check(option: string, cwd = folder): readonly [code: number | null, output: string] {
  const { status, stderr } = spawnSync(process.execPath, [TOOL, option], { cwd, encoding: 'utf8' });
  return [status, stderr];
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'complete-lock-'));
  put('test/bench/package-lock.json', { packages: {} });
  put('.ci/without-hash.json', ['a@1.0.0']);
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the check of the lock files', () => {
  it('passes if every entry has a hash', () => {
    lock('a', GOOD);
    expect(check('--check')).toEqual([0, '']);
  });

  it.each([
    ['no hash', { version: '1.0.0' }],
    ['a hash that can be forged', { version: '1.0.0', integrity: `sha1-${'a'.repeat(27)}=` }],
  ])('names an entry with %s', (_, entry) => {
    lock('@scope/a', entry);
    const [code, output] = check('--check');
    expect([code, output]).toEqual([1, expect.stringContaining('@scope/a@1.0.0 has no hash')]);
  });

  it('names an entry with the address of a registry', () => {
    lock('a', { ...GOOD, resolved: 'https://registry.example.org/a.tgz' });
    expect(check('--check')).toEqual([1, expect.stringContaining('a names where it was downloaded from')]);
  });

  it('accepts known entries on request only', () => {
    lock('a', { version: '1.0.0' });
    expect(check('--known')).toEqual([0, '']);
    expect(check('--check')[0]).toBe(1);
    lock('b', { version: '1.0.0' });
    expect(check('--known')).toEqual([1, expect.stringContaining('b@1.0.0 has no hash')]);
  });

  it('leaves out links and what is part of another package', () => {
    lock('a', { link: true });
    expect(check('--check')).toEqual([0, '']);
    lock('a', { version: '1.0.0', inBundle: true });
    expect(check('--check')).toEqual([0, '']);
  });

  it('knows the entries of this repository that have none', () => {
    expect(check('--known', ROOT)).toEqual([0, '']);
  });
});
