import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePorts } from './ports.js';

// npm start runs the sources, npm run demo what `nest build` made of them.
const isSource = import.meta.url.endsWith('.ts');
const MAIN = fileURLToPath(new URL(isSource ? '../main.ts' : '../main.js', import.meta.url));
const PRELOADED = new URL(isSource ? '../../preload.mjs' : './tether.js', import.meta.url).href;
const FIRST_PORT = 3000;
/** An instance needs less to finish its requests and release its locks. */
const STOP_TIMEOUT_MS = 8_000;

/** A process of the application. */
export class Instance {
  readonly url: string;
  /** Resolves with how the process ended. */
  readonly ended: Promise<string>;

  private constructor(
    readonly port: number,
    private readonly child: ChildProcess,
  ) {
    this.url = `http://localhost:${port}`;
    this.ended = once(child, 'exit').then(([code, signal]) => String(signal ?? `exit code ${code}`));
  }

  /** Starts `count` instances on the first free ports from 3000 up. */
  static async startAll(count: number, env: NodeJS.ProcessEnv, stdout: 'inherit' | 'ignore'): Promise<Instance[]> {
    const ports = await freePorts(count, FIRST_PORT);
    const instances = ports.map((port) => {
      const child = fork(MAIN, {
        env: { ...process.env, ...env, PORT: String(port), INSTANCES: ports.join() },
        execArgv: ['--import', PRELOADED],
        stdio: ['ignore', stdout, 'inherit', 'ipc'],
      });
      return new Instance(port, child);
    });
    await Promise.all(instances.map((instance) => instance.ready()));
    return instances;
  }

  /** Stops the process after its running requests, or kills it. */
  async stop(): Promise<void> {
    const timer = setTimeout(() => this.child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    this.child.kill('SIGTERM');
    await this.ended;
    clearTimeout(timer);
  }

  private async ready(): Promise<void> {
    const early = this.ended.then((how) => {
      throw new Error(`The instance on port ${this.port} ended before it could be called (${how}).`);
    });
    await Promise.race([once(this.child, 'message'), early]);
  }
}
