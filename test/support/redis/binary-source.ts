import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { basename, delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { startLocalServer } from './local-server.ts';
import type { RedisBinary, RedisCandidate, RedisSource } from './types.ts';

const run = promisify(execFile);
const NAMES = ['redis-server', 'valkey-server'];

/** The versions of the binaries that have run here, by their path. */
const versions = new Map<string, string>();

/** Runs the binary once, which also proves that its libraries are found. */
export async function inspectBinary(path: string, env: NodeJS.ProcessEnv, origin: string): Promise<RedisBinary> {
  const version = versions.get(path) ?? (await versionOf(path, env));
  versions.set(path, version);
  return { path, env, version, description: `${basename(path)} ${version} (${origin})` };
}

async function versionOf(path: string, env: NodeJS.ProcessEnv): Promise<string> {
  const { stdout } = await run(path, ['--version'], { env, timeout: 10_000 });
  const version = /\bv=(\d+\.\d+\.\d+)/.exec(stdout)?.[1];
  if (!version) throw new Error(`${path} is not a Redis server: ${stdout.trim().slice(0, 80)}`);
  return version;
}

export function localSource(binary: RedisBinary): RedisSource {
  return { description: binary.description, binary, start: (options) => startLocalServer(binary, options) };
}

function onPath(name: string, env: NodeJS.ProcessEnv): string | undefined {
  const folders = (env.PATH ?? '').split(delimiter).filter(Boolean);
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export function namedBinaryCandidate(env: NodeJS.ProcessEnv): RedisCandidate | undefined {
  const path = env.REDIS_SERVER_BIN;
  if (!path) return undefined;
  return {
    name: 'REDIS_SERVER_BIN',
    explicit: true,
    find: async () => localSource(await inspectBinary(path, env, `REDIS_SERVER_BIN ${path}`)),
  };
}

export function pathCandidate(env: NodeJS.ProcessEnv): RedisCandidate {
  return {
    name: 'PATH',
    async find() {
      const path = NAMES.map((name) => onPath(name, env)).find((found) => found !== undefined);
      if (!path) throw new Error(`neither ${NAMES.join(' nor ')} on PATH`);
      return localSource(await inspectBinary(path, env, `PATH, ${path}`));
    },
  };
}
