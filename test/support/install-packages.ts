import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { run } from '../packaging/command.ts';

/**
 * Installs the packages of a project, if its lock file has changed since. Prints that it does.
 *
 * @param project the folder of the lock file.
 * @param folder gets the packages. It is the project by default.
 */
export async function installPackages(project: string, folder = project): Promise<void> {
  const lockFile = join(project, 'package-lock.json');
  const wanted = createHash('sha256').update(readFileSync(lockFile)).digest('hex');
  const stamp = join(folder, 'node_modules', '.lock-file');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  if (resolve(project) !== resolve(folder)) {
    mkdirSync(folder, { recursive: true });
    for (const file of ['package.json', 'package-lock.json']) cpSync(join(project, file), join(folder, file));
  }
  process.stdout.write(`\nInstalls the packages of ${relative('', lockFile)}\n`);
  // The peers of these packages are those of this repository.
  const options = ['--legacy-peer-deps', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
  await run(`npm ci in ${folder}`, 'npm', ['ci', ...options], { cwd: folder });
  writeFileSync(stamp, wanted);
}
