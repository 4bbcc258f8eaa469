import { type ChildProcess, fork } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { LockInfo, LockOptions, RedisLockModuleOptions } from 'nestjs-redis-lock';

/** The chaos runs load this file as a module, tests as CommonJS. */
const SUPPORT = fileURLToPath(new URL('.', import.meta.url));
const RELEASES = join(SUPPORT, '../releases');
const PRESENT = pathToFileURL(join(SUPPORT, 'release-entry.ts')).href;

/** A release that `tools/freeze-release.mjs` has frozen. */
export interface FrozenRelease {
  readonly wire: number;
  readonly version: string;
  readonly commit: string;
  /** The SHA-1 of each script by its name. */
  readonly scripts: Readonly<Record<string, string>>;
  readonly folder: string;
}

/** Returns the frozen releases, the last one first. */
export function frozenReleases(): readonly FrozenRelease[] {
  return readdirSync(RELEASES)
    .map((name) => join(RELEASES, name))
    .filter((folder) => existsSync(join(folder, 'release.json')))
    .map((folder) => ({ ...(JSON.parse(readFileSync(join(folder, 'release.json'), 'utf8')) as FrozenRelease), folder }))
    .toSorted((one, other) => other.wire - one.wire);
}

/** What a process runs: the sources, the sources with the next wire version, or a frozen release. */
export type Build = 'present' | 'next' | FrozenRelease;

/** Returns what a build is called in test titles. */
export function nameOf(build: Build): string {
  return typeof build === 'string' ? build : `${build.version} (wire ${build.wire})`;
}

/** How a process takes the lock in {@link ReleaseProcess.contend}. */
export interface ContendMode extends LockOptions {
  readonly kind: 'exclusive' | 'shared' | 'permits';
  /** How many may be inside at once. Default: 1. */
  readonly most?: number;
}

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: Error) => void;
}

interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly code?: string; readonly message: string };
}

/** An application with one build of the library in its own process. */
export class ReleaseProcess {
  private readonly pending = new Map<number, Pending>();
  private readonly exited: Promise<void>;
  private count = 0;

  private constructor(private readonly child: ChildProcess) {
    child.on('message', (reply: Reply) => this.settle(reply));
    this.exited = new Promise((resolve) => {
      child.once('exit', () => {
        for (const { reject } of this.pending.values()) reject(new Error('the process has ended'));
        resolve();
      });
    });
  }

  static async start(build: Build, data: string, options: RedisLockModuleOptions, quorumNodes?: readonly string[]) {
    const isFrozen = typeof build !== 'string';
    const library = isFrozen ? pathToFileURL(join(build.folder, 'library.mjs')).href : PRESENT;
    const hooks = build === 'next' ? 'next-wire-hooks.mjs' : 'typescript-hooks.mjs';
    const child = fork(
      join(SUPPORT, 'release-worker.mjs'),
      [JSON.stringify({ library, data, options, quorumNodes })],
      isFrozen ? { execArgv: [] } : { execArgv: ['--import', pathToFileURL(join(SUPPORT, hooks)).href] },
    );
    const started = new ReleaseProcess(child);
    await new Promise((resolve, reject) => started.pending.set(0, { resolve, reject }));
    return started;
  }

  acquire(resource: string | readonly string[], options: LockOptions = {}): Promise<number> {
    return this.call('acquire', resource, options);
  }

  tryAcquire(resource: string | readonly string[], options: LockOptions = {}): Promise<boolean> {
    return this.call('tryAcquire', resource, options);
  }

  release(resource: string | readonly string[]): Promise<boolean> {
    return this.call('release', resource);
  }

  isHeld(resource: string): Promise<boolean> {
    return this.call('isHeld', resource);
  }

  /** Waits until the lock is lost. Returns the code of the error. */
  untilLost(resource: string): Promise<string> {
    return this.call('untilLost', resource);
  }

  forceRelease(resource: string): Promise<boolean> {
    return this.call('forceRelease', resource);
  }

  inspect(resource: string): Promise<LockInfo | null> {
    return this.call('inspect', resource);
  }

  /** Takes the lock again and again, and records in `inside` who is there beside whom. */
  contend(resource: string | readonly string[], modes: readonly ContendMode[], times: number, inside: string) {
    return this.call<void>('contend', resource, modes, times, inside);
  }

  /** Returns the lines that were logged as warnings or errors. */
  warnings(): Promise<readonly string[]> {
    return this.call('warnings');
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  private call<T>(name: string, ...args: readonly unknown[]): Promise<T> {
    const id = (this.count += 1);
    const answer = new Promise<T>((resolve, reject) => {
      this.pending.set(id, { resolve: resolve as (value: unknown) => void, reject });
    });
    // A killed process leaves pending calls without a caller.
    answer.catch(() => undefined);
    this.child.send({ id, name, args });
    return answer;
  }

  private settle({ id, value, error }: Reply): void {
    const call = this.pending.get(id);
    this.pending.delete(id);
    if (error === undefined) call?.resolve(value);
    else call?.reject(Object.assign(new Error(error.message), { code: error.code }));
  }
}
