import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { LockProcessOptions, WorkerCalls } from './lock-worker.js';

interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
}

/** Resolves a file of this folder. The sources run as CommonJS under jest and as modules without it. */
const fileOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Forks a TypeScript source. The child ends with its parent. */
export function forkSource(name: string, options: object, env: NodeJS.ProcessEnv = {}, flags: readonly string[] = []) {
  return fork(fileOf(name), [JSON.stringify(options)], {
    execArgv: ['--import', fileOf('typescript-hooks.mjs'), ...flags],
    env: { ...process.env, ...env },
    serialization: 'json',
  });
}

type Calls = Readonly<Record<string, (...args: never[]) => unknown>>;

/** A module instance in its own process, which can be stopped and killed. The type has what its parent may call. */
export class LockProcess<Known extends Calls = WorkerCalls> {
  private readonly pending = new Map<number, Pending>();
  private readonly exited: Promise<void>;
  private calls = 0;

  private constructor(private readonly child: ChildProcess) {
    child.on('message', (reply: Reply) => this.settle(reply));
    this.exited = new Promise((resolve) => {
      child.once('exit', () => {
        for (const { reject } of this.pending.values()) reject(new Error('the process has ended'));
        resolve();
      });
    });
  }

  static start(options: LockProcessOptions): Promise<LockProcess> {
    return LockProcess.fork<WorkerCalls>('lock-worker.ts', options);
  }

  /** Starts a process with a source, relative to this folder, that takes calls as `lock-worker.ts` does. */
  static async fork<Known extends Calls>(source: string, options: object): Promise<LockProcess<Known>> {
    const started = new LockProcess<Known>(forkSource(source, options));
    await new Promise((resolve, reject) => started.pending.set(0, { resolve, reject }));
    return started;
  }

  call<Name extends keyof Known & string>(name: Name, ...args: Parameters<Known[Name]>) {
    const id = (this.calls += 1);
    type Answer = Awaited<ReturnType<Known[Name]>>;
    const answer = new Promise<unknown>((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
    }) as Promise<Answer>;
    // A killed process leaves pending calls without a caller.
    answer.catch(() => undefined);
    this.child.send({ id, name, args });
    return answer;
  }

  /** SIGSTOP. */
  pause(): void {
    this.child.kill('SIGSTOP');
  }

  /** SIGCONT. */
  resume(): void {
    this.child.kill('SIGCONT');
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  private settle({ id, value, error }: Reply): void {
    const call = this.pending.get(id);
    this.pending.delete(id);
    if (error === undefined) call?.resolve(value);
    else call?.reject(new Error(error));
  }
}
