import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { run } from '../packaging/command.js';

const PROJECT = join(__dirname, 'libraries');
const FILES = ['package.json', 'package-lock.json', 'libraries.mjs', 'peer.mjs'];

/** The folder of the libraries that users move from. They are downloaded once. */
const FOLDER = resolve(__dirname, '../../.cache/interop/libraries');

/** The program that locks by one of these libraries. */
export const LIBRARY_PEER = join(FOLDER, 'peer.mjs');

/** Installs the libraries if their list has changed. */
export async function installLibraries(): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  for (const file of FILES) cpSync(join(PROJECT, file), join(FOLDER, file));
  const stamp = join(FOLDER, 'stamp');
  const wanted = createHash('sha256')
    .update(readFileSync(join(PROJECT, 'package-lock.json')))
    .digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  rmSync(stamp, { force: true });
  const quietly = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
  await run('npm ci of the libraries', 'npm', ['ci', ...quietly], { cwd: FOLDER });
  writeFileSync(stamp, wanted);
}
