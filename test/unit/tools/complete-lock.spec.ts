import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

const TOOL = resolve(__dirname, '../../../.ci/complete-lock.mjs');
const HASH = { version: '1.0.0', integrity: `sha512-${'a'.repeat(86)}==` };

let folder: string;

/** Writes a lock file with one package. */
const lock = (entry: object): void =>
  writeFileSync(
    join(folder, 'package-lock.json'),
    JSON.stringify({ packages: { '': {}, 'node_modules/@scope/a': entry } }),
  );

function check(option: string): readonly [code: number | null, output: string] {
  const { status, stderr } = spawnSync(process.execPath, [TOOL, option], { cwd: folder, encoding: 'utf8' });
  return [status, stderr];
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'complete-lock-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the check of the lock files', () => {
  it.each([
    ['has a hash', HASH],
    ['is a link', { link: true }],
    ['is part of another package', { version: '1.0.0', inBundle: true }],
  ])('accepts an entry that %s', (_, entry) => {
    lock(entry);
    expect(check('--strict')).toEqual([0, '']);
  });

  it.each([
    ['no hash', { version: '1.0.0' }],
    ['a hash that can be forged', { version: '1.0.0', integrity: `sha1-${'a'.repeat(27)}=` }],
  ])('refuses %s in each entry if it is strict, else of an installed package', (_, entry) => {
    const refused = [1, expect.stringContaining('@scope/a@1.0.0 has no hash')];
    lock(entry);
    expect(check('--strict')).toEqual(refused);
    expect(check('--check')).toEqual([0, '']);
    mkdirSync(join(folder, 'node_modules/@scope/a'), { recursive: true });
    expect(check('--check')).toEqual(refused);
  });

  it('refuses the address of a registry', () => {
    lock({ ...HASH, resolved: 'https://registry.example.org/a.tgz' });
    expect(check('--check')).toEqual([1, expect.stringContaining('@scope/a names the registry')]);
  });
});
