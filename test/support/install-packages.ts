import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../packaging/command.js';

/** Installs the packages of a lock file into a folder below `.cache`, if the lock file has changed since. */
export async function installPackages(project: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const file of ['package.json', 'package-lock.json']) cpSync(join(project, file), join(folder, file));
  const stamp = join(folder, 'stamp');
  const wanted = createHash('sha256')
    .update(readFileSync(join(project, 'package-lock.json')))
    .digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  rmSync(stamp, { force: true });
  // The peers of these packages are those of this repository.
  const options = ['--legacy-peer-deps', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
  await run(`npm ci in ${folder}`, 'npm', ['ci', ...options], { cwd: folder });
  writeFileSync(stamp, wanted);
}
