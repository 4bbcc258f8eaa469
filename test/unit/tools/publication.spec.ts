import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

const ROOT = resolve(__dirname, '../../..');
const TOOL = join(ROOT, 'tools/publication.mjs');
const RELEASE = join(ROOT, 'tools/release.mjs');
const PLACE = 'tools/publication.json';
const REPOSITORY = 'https://github.com/acme/locks';

const MANIFEST = {
  name: 'old-locks',
  version: '1.2.3',
  license: 'MIT',
  type: 'module',
  bin: { 'old-locks': 'dist/cli/bin.js' },
};
const README = '[Keys](docs/keys.md#top), [top](#top), [npm](https://example.org), ![picture](docs/a.png)\n';
const CODE = [
  "import { a } from 'old-locks';",
  "import { b } from 'old-locks/store';",
  "channel('old-locks:granted');",
  "const key = '{old-locks}|ping';",
  "const cookie = 'old-locks-board';",
  "const bin = 'node_modules/.bin/old-locks';",
  "const other = 'my-old-locks';",
];
const CHANGELOG = '# Changelog\n\n## Unreleased\n\n- A change.\n\n## 1.2.2 (2026-01-01)\n\n- Before.\n';

let folder: string;

const put = (file: string, text: string): void => {
  mkdirSync(dirname(join(folder, file)), { recursive: true });
  writeFileSync(join(folder, file), text);
};
const read = (file: string): string => readFileSync(join(folder, file), 'utf8');
const manifest = (): Record<string, unknown> => JSON.parse(read('package.json')) as Record<string, unknown>;
const decide = (name: string | null, repository: string | null): void =>
  put(PLACE, JSON.stringify({ name, repository }));

/** Variables of the workflow that runs a tool. */
let workflow: NodeJS.ProcessEnv;

/** Runs a tool in the folder. Returns its exit code and all its output. */
function run(tool: string, ...args: string[]): readonly [code: number | null, output: string] {
  const none = { GITHUB_REPOSITORY: undefined, GITHUB_REF_TYPE: undefined, GITHUB_REF_NAME: undefined };
  const options = { cwd: folder, encoding: 'utf8', env: { ...process.env, ...none, ...workflow } } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [tool, ...args], options);
  return [status, stdout + stderr];
}

beforeEach(() => {
  workflow = {};
  folder = mkdtempSync(join(tmpdir(), 'publication-'));
  put('package.json', JSON.stringify(MANIFEST));
  put('package-lock.json', JSON.stringify({ name: 'old-locks', packages: { '': { name: 'old-locks' } } }));
  put('README.md', README);
  put('CHANGELOG.md', CHANGELOG);
  put('lib/core/version.ts', "export const VERSION = '1.2.2';\n");
  put('lib/code.ts', CODE.join('\n'));
  put('test/releases/1/library.mjs', "'old-locks'");
  decide(null, null);
  execFileSync('git', ['init', '-q'], { cwd: folder });
  execFileSync('git', ['add', '.'], { cwd: folder });
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the place of the name and the address', () => {
  it('changes nothing as long as both are missing, and refuses to publish', () => {
    expect(run(TOOL)).toEqual([0, '']);
    expect(manifest()).toEqual(MANIFEST);
    expect(run(TOOL, '--check')).toEqual([0, '']);
    const [code, output] = run(TOOL, '--publish');
    expect(code).toBe(1);
    expect(output).toContain('The name is missing');
    expect(output).toContain('The repository is missing');
    expect(output).toContain('CHANGELOG.md has no "## 1.2.3 (date)"');
  });

  it('writes the fields of package.json', () => {
    decide('old-locks', REPOSITORY);
    const [code, output] = run(TOOL, '--check');
    expect(code).toBe(1);
    expect(output).toContain('package.json has another homepage');
    expect(run(TOOL)).toEqual([0, '']);
    expect(run(TOOL, '--check')).toEqual([0, '']);
    expect(Object.keys(manifest()).slice(0, 6)).toEqual([
      ...['name', 'version', 'license', 'homepage', 'bugs', 'repository'],
    ]);
    expect(manifest()).toMatchObject({
      homepage: `${REPOSITORY}#readme`,
      bugs: { url: `${REPOSITORY}/issues` },
      repository: { type: 'git', url: `git+${REPOSITORY}.git` },
    });
  });

  it('is ready to publish once the version has its section', () => {
    decide('old-locks', REPOSITORY);
    run(TOOL);
    expect(run(RELEASE, 'version', '2026-02-03')).toEqual([0, '']);
    expect(run(TOOL, '--publish')).toEqual([0, '']);
  });

  it('refuses to publish from another repository or tag', () => {
    decide('old-locks', REPOSITORY);
    run(TOOL);
    run(RELEASE, 'version', '2026-02-03');
    workflow = { GITHUB_REPOSITORY: 'acme/locks', GITHUB_REF_TYPE: 'tag', GITHUB_REF_NAME: 'v1.2.3' };
    expect(run(TOOL, '--publish')).toEqual([0, '']);
    workflow = { GITHUB_REPOSITORY: 'fork/locks', GITHUB_REF_TYPE: 'tag', GITHUB_REF_NAME: 'v1.2.4' };
    const [code, output] = run(TOOL, '--publish');
    expect(code).toBe(1);
    expect(output).toContain('The workflow runs in fork/locks');
    expect(output).toContain('The tag is v1.2.4');
  });

  it('makes the links of the published README absolute, and relative again', () => {
    expect(run(TOOL, '--pack')).toEqual([0, '']);
    expect(read('README.md')).toBe(README);
    decide('old-locks', REPOSITORY);
    expect(run(TOOL, '--pack')).toEqual([0, '']);
    const link = `${REPOSITORY}/blob/v1.2.3/docs/keys.md#top`;
    const picture = `${REPOSITORY}/raw/v1.2.3/docs/a.png`;
    expect(read('README.md')).toBe(
      `[Keys](${link}), [top](#top), [npm](https://example.org), ![picture](${picture})\n`,
    );
    expect(run(TOOL, '--unpack')).toEqual([0, '']);
    expect(read('README.md')).toBe(README);
  });

  it('renames the package, but no channel, key, cookie or frozen release', () => {
    decide('@acme/locks', REPOSITORY);
    expect(run(TOOL)[0]).toBe(0);
    expect(manifest()).toMatchObject({ name: '@acme/locks', bin: { locks: 'dist/cli/bin.js' } });
    expect(JSON.parse(read('package-lock.json'))).toEqual({
      name: '@acme/locks',
      packages: { '': { name: '@acme/locks' } },
    });
    expect(read('lib/code.ts').split('\n')).toEqual([
      "import { a } from '@acme/locks';",
      "import { b } from '@acme/locks/store';",
      ...CODE.slice(2, 5),
      "const bin = 'node_modules/.bin/locks';",
      CODE[6],
    ]);
    expect(read('test/releases/1/library.mjs')).toBe("'old-locks'");
    expect(run(TOOL, '--check')).toEqual([0, '']);
  });

  it.each([
    ['a name that is none', { name: 'Not a name', repository: null }],
    ['an address with .git', { name: null, repository: `git+${REPOSITORY}.git` }],
    ['another value', { name: null, repository: null, homepage: 'https://example.org' }],
  ])('refuses %s', (_, value) => {
    put(PLACE, JSON.stringify(value));
    const [code, output] = run(TOOL, '--check');
    expect(code).toBe(1);
    expect(output).toContain('Allowed');
  });
});

describe('a release', () => {
  it('gives Unreleased the version and the date, and prints its notes', () => {
    expect(run(RELEASE, 'version', '2026-02-03')).toEqual([0, '']);
    expect(read('CHANGELOG.md')).toBe(CHANGELOG.replace('## Unreleased\n', '## Unreleased\n\n## 1.2.3 (2026-02-03)\n'));
    expect(read('lib/core/version.ts')).toBe("export const VERSION = '1.2.3';\n");
    expect(run(RELEASE, 'notes')).toEqual([0, '- A change.\n']);
    expect(run(RELEASE, 'notes', 'v1.2.2')).toEqual([0, '- Before.\n']);
  });

  it('fails the second time, and for a version without a section', () => {
    run(RELEASE, 'version', '2026-02-03');
    expect(run(RELEASE, 'version')).toEqual([1, expect.stringContaining('has a section of 1.2.3 already')]);
    expect(run(RELEASE, 'notes', '9.9.9')).toEqual([1, expect.stringContaining('no section of 9.9.9')]);
  });
});

describe('this repository', () => {
  it('has one version, and the fields of package.json that follow from the address', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    expect(readFileSync(join(ROOT, 'lib/core/version.ts'), 'utf8')).toContain(`VERSION = '${version}'`);
    const options = { cwd: ROOT, encoding: 'utf8' } as const;
    expect(spawnSync(process.execPath, [TOOL, '--check'], options)).toMatchObject({ status: 0, stderr: '' });
  });
});
