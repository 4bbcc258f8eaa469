import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';

/**
 * The parent process of a local server. Its stdin is a pipe from this process. The guardian kills the server once the
 * pipe ends, also after SIGKILL. It runs by `node -e`, so that it needs no file beside transformed code.
 */
const SCRIPT = `
const { spawn } = require('node:child_process');
const { mkdtempSync, rmSync } = require('node:fs');
const { join } = require('node:path');
const folder = mkdtempSync(join(require('node:os').tmpdir(), 'redis-'));
const [variables, command, ...args] = process.argv.slice(1);
const env = { ...process.env, ...JSON.parse(variables) };
const server = spawn(command, args, { cwd: folder, env, stdio: ['ignore', 'inherit', 'inherit'] });
process.send?.(server.pid);
const end = (code) => {
  rmSync(folder, { recursive: true, force: true });
  process.exit(code);
};
server.on('error', (error) => { console.error(error.message); end(127); });
server.on('exit', (code) => end(code ?? 1));
process.stdin.on('end', () => server.kill('SIGKILL')).on('error', () => server.kill('SIGKILL')).resume();
`;

const OUTPUT_KEPT = 4_096;

/** Runs a command that cannot outlive this process. */
export class GuardedProcess {
  private readonly guardian: ChildProcess;
  private log = '';
  private exit = false;
  private childPid: number | undefined;
  readonly exited: Promise<void>;

  /** @param variables further environment variables of the command, which the guardian itself does not get. */
  constructor(command: string, args: readonly string[], env: NodeJS.ProcessEnv, variables: NodeJS.ProcessEnv = {}) {
    // Detached: Ctrl-C reaches this process only, which can still release locks while it shuts down.
    this.guardian = spawn(process.execPath, ['-e', SCRIPT, '--', JSON.stringify(variables), command, ...args], {
      env: { ...env, NODE_OPTIONS: '' },
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
    });
    this.guardian.once('message', (pid: number) => (this.childPid = pid));
    const keep = (chunk: Buffer) => (this.log = (this.log + chunk.toString()).slice(-OUTPUT_KEPT));
    this.guardian.stdout?.on('data', keep);
    this.guardian.stderr?.on('data', keep);
    this.guardian.stdin?.on('error', () => undefined);
    this.exited = new Promise((resolve) => {
      const done = () => {
        this.exit = true;
        resolve();
      };
      this.guardian.once('error', done).once('close', done);
    });
    this.unref();
  }

  /** The last lines of the server's output, for the error if it does not start. */
  get output(): string {
    return this.log.trim();
  }

  /** The pid of the command, undefined until the guardian has reported it. */
  get pid(): number | undefined {
    return this.childPid;
  }

  get hasExited(): boolean {
    return this.exit;
  }

  async stop(): Promise<void> {
    this.guardian.stdin?.end();
    await this.ended();
  }

  /** Waits until the command has exited, and keeps this process alive until then. */
  async ended(): Promise<void> {
    this.keepAlive('ref');
    await this.exited;
  }

  /** A forgotten server must not keep this process alive. It ends with this process. */
  private unref(): void {
    this.guardian.channel?.unref();
    this.keepAlive('unref');
  }

  /** The streams, too: the guardian counts as exited once they have ended. */
  private keepAlive(how: 'ref' | 'unref'): void {
    const { stdin, stdout, stderr } = this.guardian;
    for (const one of [this.guardian, stdin, stdout, stderr]) (one as Socket | null)?.[how]();
  }
}
