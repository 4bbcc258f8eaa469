// Runs the lines of the README in a copy of this repository, and in an application beside it.
import { execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { page, root } from '../support/pages.js';
import { run } from './command.js';

const [inClone, inApplication, ...others] = installLinesOf('README.md');

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nestjs-redis-lock-'));
  const clone = join(folder, 'nestjs-redis-lock');
  const deleted = filesOfGit('--deleted');
  for (const file of filesOfGit('--cached', '--others', '--exclude-standard', '--deduplicate')) {
    if (!deleted.includes(file)) await cp(join(root, file), join(clone, file));
  }
  await mkdir(join(folder, 'application'));
  await writeFile(join(folder, 'application', 'package.json'), '{ "private": true }\n');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function filesOfGit(...options: readonly string[]): readonly string[] {
  const output = execFileSync('git', ['ls-files', '-z', ...options], { cwd: root, encoding: 'utf8' });
  return output.split('\0').filter(Boolean);
}

/** Returns the lines of the first example of a page. */
function installLinesOf(path: string): readonly string[] {
  return (/^```sh\n([^]*?)\n```$/m.exec(page(path).text)?.[1] ?? '').split('\n');
}

const runLine = (line: string, cwd: string): Promise<string> =>
  run(line, 'sh', ['-c', line], { cwd: join(folder, cwd), env: outsideOfNpm() });

/** Returns the environment of a shell that npm has not started. */
function outsideOfNpm(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.keys(process.env)
      .filter((name) => /^npm_/i.test(name))
      .map((name) => [name, undefined]),
  );
}

it('the README and the quick start say the same', () => {
  expect(others).toEqual([]);
  expect(installLinesOf('docs/quick-start.md')).toEqual([inClone, inApplication]);
});

it('a clone packs the package, and npm prints no warning', async () => {
  const lines = (await runLine(inClone, 'nestjs-redis-lock')).trim().split('\n').filter(Boolean);
  const unexpected = lines.filter((line) => !/^> |^added \d+ packages in /.test(line));
  expect(unexpected).toEqual([expect.stringMatching(/^nestjs-redis-lock-[\d.]+\.tgz$/)]);
});

it('an application beside the clone installs the package', async () => {
  await runLine(inApplication, 'application');
  const code = "const { Locked } = require('nestjs-redis-lock'); console.log(typeof Locked, typeof require('ioredis'))";
  const output = await run('node', process.execPath, ['-e', code], {
    cwd: join(folder, 'application'),
  });
  expect(output).toBe('function function\n');
});
