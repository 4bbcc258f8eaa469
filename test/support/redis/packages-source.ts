import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from '../cache-folder.ts';
import { inspectBinary, localSource } from './binary-source.ts';
import type { RedisBinary, RedisCandidate } from './types.ts';

const run = promisify(execFile);
/** It holds the server's binary. The package redis-server holds a link to it and the service files. */
const PACKAGE = 'redis-tools';
const ORIGIN = 'unpacked distribution packages';
const APT_TIMEOUT_MS = 180_000;
const REASON_LENGTH = 600;

/** Runs apt with its state in `folder`, without root and without the system's lists. */
function privateApt(folder: string): string[] {
  const dirs = { 'State::Lists': join(folder, 'lists'), Cache: join(folder, 'cache') };
  for (const dir of Object.values(dirs)) mkdirSync(join(dir, 'partial'), { recursive: true });
  const options = Object.entries(dirs).map(([name, dir]) => `Dir::${name}=${dir}`);
  // As root apt would drop to _apt, which cannot write to a folder of mode 0700.
  return [...options, 'Debug::NoLocking=1', 'APT::Sandbox::User=root'].flatMap((option) => ['-o', option]);
}

/** The libraries the server links to, without the C library, which belongs to the machine's loader. */
async function libraries(apt: string[]): Promise<string[]> {
  const { stdout } = await run('apt-cache', [...apt, 'depends', '--important', PACKAGE], { timeout: APT_TIMEOUT_MS });
  const names = [...stdout.matchAll(/^\s*\|?Depends: ((?:lib|lua-)\S+)$/gm)].map((match) => match[1]);
  return names.filter((name) => name !== 'libc6');
}

async function download(apt: string[], folder: string): Promise<void> {
  const packages = ['redis-server', PACKAGE, ...(await libraries(apt))];
  await run('apt-get', [...apt, '-q', 'download', ...packages], { cwd: folder, timeout: APT_TIMEOUT_MS });
}

/** Returns why a repository failed to update. Another repository may have the packages. */
async function update(apt: string[]): Promise<string> {
  try {
    return (await run('apt-get', [...apt, '-q', 'update'], { timeout: APT_TIMEOUT_MS })).stderr;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Uses the system's package lists if they work, which is fast, and new lists otherwise. */
async function downloadPackages(folder: string): Promise<void> {
  try {
    await download(['-o', 'APT::Sandbox::User=root'], folder);
  } catch {
    const apt = privateApt(folder);
    const complaints = await update(apt);
    try {
      await download(apt, folder);
    } catch (error) {
      const reason = `${complaints} ${(error as Error).message}`.replace(/\s+/g, ' ').trim();
      throw new Error(reason.slice(0, REASON_LENGTH), { cause: error });
    }
  }
}

async function unpack(from: string, to: string): Promise<void> {
  for (const file of readdirSync(from).filter((name) => name.endsWith('.deb'))) {
    await run('dpkg', ['-x', join(from, file), to]);
  }
}

async function unpackedBinary(folder: string, env: NodeJS.ProcessEnv): Promise<RedisBinary> {
  const lib = join(folder, 'usr', 'lib');
  const triplet = readdirSync(lib).find((name) => name.includes('-linux-gnu')) ?? '';
  const path = join(folder, 'usr', 'bin', 'redis-server');
  return inspectBinary(path, { ...env, LD_LIBRARY_PATH: join(lib, triplet) }, ORIGIN);
}

/** Unpacks beside the final folder and renames it, so that another process sees all of it or nothing. */
async function install(cache: string, target: string): Promise<void> {
  const work = mkdtempSync(join(cache, 'download-'));
  try {
    await downloadPackages(work);
    await unpack(work, join(work, 'root'));
    rmSync(target, { recursive: true, force: true });
    renameSync(join(work, 'root'), target);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

export function packagesCandidate(env: NodeJS.ProcessEnv): RedisCandidate {
  return {
    name: ORIGIN,
    async find() {
      if (process.platform !== 'linux') throw new Error('only on Debian and Ubuntu');
      const cache = cacheFolder(env);
      const target = join(cache, `redis-${process.arch}`);
      const present = await unpackedBinary(target, env).catch(() => undefined);
      if (present) return localSource(present);
      await install(cache, target);
      return localSource(await unpackedBinary(target, env));
    },
  };
}
