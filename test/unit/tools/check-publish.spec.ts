import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

const ROOT = resolve(__dirname, '../../..');
const MANIFEST = { version: '1.2.3', repository: { type: 'git', url: 'git+https://github.com/acme/locks.git' } };

let folder: string;

const put = (file: string, text: string): void => writeFileSync(join(folder, file), text);

/** Returns what is missing, from a folder or from this repository. */
function missing(cwd = folder, tag?: string, isDryRun = false): string {
  const github = { GITHUB_REF_TYPE: tag && 'tag', GITHUB_REF_NAME: tag };
  const env = { ...process.env, ...github, npm_config_dry_run: isDryRun ? 'true' : undefined };
  const tool = join(ROOT, 'tools/check-publish.mjs');
  const { status, stderr } = spawnSync(process.execPath, [tool], { cwd, env, encoding: 'utf8' });
  expect(status).toBe(stderr === '' || isDryRun ? 0 : 1);
  return stderr;
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'check-publish-'));
  mkdirSync(join(folder, 'lib/common'), { recursive: true });
  put('package.json', JSON.stringify(MANIFEST));
  put('lib/common/version.ts', "export const VERSION = '1.2.3';\n");
  put('README.md', '# Locks\n\nnpm install locks\n');
  put('CHANGELOG.md', '# Changelog\n\n## Unreleased\n\n## 1.2.3 (2026-02-03)\n');
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the check before publishing', () => {
  it('passes if nothing is missing', () => {
    expect(missing()).toBe('');
    expect(missing(folder, 'v1.2.3')).toBe('');
  });

  it('refuses a package without an address, and counts the links that need it', () => {
    put('package.json', JSON.stringify({ version: '1.2.3' }));
    put('README.md', '[Keys](docs/keys.md), [Nest](https://nestjs.com), [below](#below), [MIT](LICENSE)');
    expect(missing()).toMatch(/^package\.json has no "repository".* Without it, 2 links of README\.md .*\n$/);
    put('package.json', JSON.stringify({ ...MANIFEST, repository: { url: 'https://github.com/acme/locks' } }));
    expect(missing()).toMatch(/^package\.json has no "repository".*\n$/);
  });

  it('says in a dry run what is missing, and goes on', () => {
    put('package.json', JSON.stringify({ version: '1.2.3' }));
    const isDryRun = true;
    expect(missing(folder, undefined, isDryRun)).toMatch(/^package\.json has no .*\nThis is a dry run\..*\n$/);
  });

  it('refuses a README that installs the package from a clone', () => {
    put('README.md', '# Locks\n\nnpm ci && npm pack\n');
    expect(missing()).toBe('README.md says how to install from a clone. Remove these lines.\n');
  });

  it('refuses a version that the code, the changelog or the tag does not have', () => {
    put('lib/common/version.ts', "export const VERSION = '1.2.2';\n");
    put('CHANGELOG.md', '## Unreleased\n');
    const problems = missing(folder, 'v1.2.4').trimEnd().split('\n');
    expect(problems).toEqual([
      'the version of lib/common/version.ts is not 1.2.3, as in package.json.',
      'CHANGELOG.md has no section "## 1.2.3 (<date>)".',
      'The tag is v1.2.4. It has to be v1.2.3.',
    ]);
  });

  it('finds one version in this repository', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    expect(readFileSync(join(ROOT, 'lib/common/version.ts'), 'utf8')).toContain(`VERSION = '${version}'`);
  });
});
