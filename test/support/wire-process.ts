import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { LockInfo, LockOptions, RedisLockModuleOptions } from 'nestjs-redis-lock';

/** What a process runs: the sources, or the sources with the next wire version. */
export type Build = 'present' | 'next';

/** How a process takes the lock in {@link WireProcess.contend}. */
export type ContendMode = LockOptions & {
  readonly kind: 'exclusive' | 'shared' | 'permits';
  /** How many may be inside at once. Default: 1. */
  readonly most?: number;
};

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: Error) => void;
}

interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly code?: string; readonly message: string };
}

const urlOf = (file: string): string => new URL(file, import.meta.url).href;

/** An application with one build of the library in its own process. */
export class WireProcess {
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

  static async start(build: Build, data: string, options: RedisLockModuleOptions): Promise<WireProcess> {
    const hooks = build === 'next' ? './next-wire-hooks.mjs' : './typescript-hooks.mjs';
    const args = [JSON.stringify({ data, options })];
    const child = fork(fileURLToPath(urlOf('./wire-worker.mjs')), args, { execArgv: ['--import', urlOf(hooks)] });
    const started = new WireProcess(child);
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
