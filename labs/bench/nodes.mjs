// Gets other versions of Node from npm, into a cache folder.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'nestjs-redis-lock', 'nodes');
const LIMIT_MS = 300_000;
const [OWN_MAJOR] = process.versions.node.split('.');

/** Returns the path of a Node of that major version. Throws an error with the reason if none can be had. */
export function nodeOf(major) {
  if (major === OWN_MAJOR) return process.execPath;
  const name = `node-${process.platform}-${process.arch}`;
  const target = join(CACHE, major);
  const binary = join(target, 'node_modules', name, 'bin', 'node');
  if (existsSync(binary)) return binary;
  const folder = `${target}.${process.pid}`;
  mkdirSync(folder, { recursive: true });
  try {
    const options = ['--prefix', folder, '--ignore-scripts', '--no-save', '--no-audit', '--no-fund'];
    execFileSync('npm', ['install', ...options, `${name}@${major}`], { timeout: LIMIT_MS, stdio: 'pipe' });
    rmSync(target, { recursive: true, force: true });
    renameSync(folder, target);
    return binary;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
