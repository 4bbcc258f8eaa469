import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { resolve } from 'node:path';
import { eventually } from '../support/async.js';

export const root = resolve(__dirname, '../..');

const running = new Set<Script>();

/** A running script of the sample, and its output. */
export class Script {
  output = '';
  readonly ended: Promise<number | string>;
  private readonly printed = new EventEmitter();

  private constructor(private readonly child: ChildProcess) {
    running.add(this);
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.output += chunk.toString();
        this.printed.emit('chunk');
      });
    }
    this.ended = once(child, 'close').then(([code, signal]) => {
      running.delete(this);
      return (code ?? signal) as number | string;
    });
  }

  /** Runs a command in the repository, in a process group of its own. */
  static run(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Script {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new Script(child);
  }

  /** Kills what still runs. For `afterEach`. */
  static async killAll(): Promise<void> {
    const left = [...running];
    for (const script of left) {
      try {
        script.signal('SIGKILL');
      } catch (error) {
        // It has just ended.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
    await Promise.all(left.map(({ ended }) => ended));
  }

  /** Sends a signal to the script and all its children, as a terminal does. npm passes no signal on. */
  signal(name: NodeJS.Signals): void {
    process.kill(-(this.child.pid as number), name);
  }

  /** Sends a signal to the script only. */
  kill(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** Waits until the output matches the pattern. */
  async prints(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.output)) {
      const end = await Promise.race([this.ended, once(this.printed, 'chunk').then(() => undefined)]);
      if (end === undefined || pattern.test(this.output)) continue;
      throw new Error(`ended with ${end} before it printed ${pattern}:\n${this.output}`);
    }
  }

  get urls(): string[] {
    return this.output.match(/http:\/\/localhost:\d+/g) ?? [];
  }

  /** The instances, as npm start prints them. */
  get pids(): number[] {
    return [...this.output.matchAll(/\(pid (\d+)\)/g)].map(([, pid]) => Number(pid));
  }

  get redisPort(): number {
    return Number(/^Redis .*, port (\d+)$/m.exec(this.output)?.[1]);
  }
}

/** Returns whether a server accepts requests there. */
export async function accepts(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}

/** Waits until no server accepts requests there. */
export function untilClosed(url: string): Promise<void> {
  return eventually(`${url} is closed`, async () => !(await accepts(url)));
}
