import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const VERSION = '5.11.1';
const FOLDER = fileURLToPath(new URL(`../../../../.cache/chaos/ioredis-${VERSION}/`, import.meta.url));
const HOOKS = fileURLToPath(new URL('ioredis-5-hooks.mjs', import.meta.url));
const INSTALL_MS = 120_000;

let installed: Promise<string> | undefined;

/** Returns the flags of a process whose `ioredis` is version 5. It is installed once, which needs the registry. */
export async function ioredis5Flags(): Promise<readonly string[]> {
  const entry = await (installed ??= install());
  // After the hooks of the sources, so that these are asked first.
  return ['--import', `${pathToFileURL(HOOKS).href}?${encodeURIComponent(pathToFileURL(entry).href)}`];
}

async function install(): Promise<string> {
  const found = join(FOLDER, 'node_modules/ioredis/package.json');
  if (!existsSync(found)) {
    await mkdir(FOLDER, { recursive: true });
    const args = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', FOLDER, `ioredis@${VERSION}`];
    await promisify(execFile)('npm', args, { timeout: INSTALL_MS });
  }
  return createRequire(found).resolve('ioredis');
}
