import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePorts } from './ports.js';

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url));
const PRELOADED = new URL('../../preload.mjs', import.meta.url).href;
const FIRST_PORT = Number(process.env.PORT) || 3000;
/** An instance needs less to finish its requests and release its locks. */
const STOP_TIMEOUT_MS = 8_000;

/** A process of the application. */
export class Instance {
  readonly url: string;
  readonly pid: number | undefined;
  /** Resolves with how the process ended. */
  readonly ended: Promise<string>;
  private isStopping = false;

  private constructor(
    readonly port: number,
    private readonly child: ChildProcess,
  ) {
    this.url = `http://localhost:${port}`;
    this.pid = child.pid;
    this.ended = once(child, 'exit').then(([code, signal]) => String(signal ?? `exit code ${code}`));
  }

  /** Starts `count` processes on the first free ports, starting at 3000 or PORT. They are not ready yet. */
  static async spawn(count: number, env: NodeJS.ProcessEnv, stdout: 'inherit' | 'ignore'): Promise<Instance[]> {
    const ports = await freePorts(count, FIRST_PORT);
    return ports.map((port) => {
      const child = fork(MAIN, {
        env: { ...process.env, ...env, PORT: String(port), INSTANCES: ports.join() },
        execArgv: ['--import', PRELOADED],
        stdio: ['ignore', stdout, 'inherit', 'ipc'],
      });
      return new Instance(port, child);
    });
  }

  /** Waits until the process accepts requests. @throws Error if it ends before. */
  async ready(): Promise<void> {
    const early = this.ended.then((how) => {
      throw new Error(`The instance on port ${this.port} ended before it could be called (${how}).`);
    });
    await Promise.race([once(this.child, 'message'), early]);
  }

  /** Starts the reports of this process. It prints none before. */
  startReports(): void {
    // It may have crashed.
    this.child.send('start reports', () => undefined);
  }

  /** Returns how the process ended, or undefined if `stop` has ended it. */
  async crashed(): Promise<string | undefined> {
    const how = await this.ended;
    return this.isStopping ? undefined : how;
  }

  /** Stops the process after its running requests, or kills it. */
  async stop(): Promise<void> {
    this.isStopping = true;
    const timer = setTimeout(() => this.child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    this.child.kill('SIGTERM');
    await this.ended;
    clearTimeout(timer);
  }
}
