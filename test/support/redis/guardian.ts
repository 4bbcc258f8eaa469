import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';

/**
 * The parent process of a local server, which reports its pid by file descriptor 3. Its stdin is a pipe from this
 * process. The guardian kills the server once the pipe ends, even after SIGKILL. A shell starts in a tenth of the time
 * that Node needs.
 */
const SCRIPT = `
folder=$(mktemp -d) && cd "$folder" || exit
env "$@" </dev/null 3>&- &
server=$!
echo $server >&3
exec 3>&- 4<&0 >/dev/null 2>&1
(read -r _ <&4; kill -9 $server) &
wait $server
kill $!
rm -rf "$folder"
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
    const own = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
    // Detached: Ctrl-C reaches this process only, which can still release locks while it shuts down.
    this.guardian = spawn('sh', ['-c', SCRIPT, 'sh', ...own, command, ...args], {
      env,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    });
    this.guardian.stdio[3]?.once('data', (pid: Buffer) => (this.childPid = Number(pid.toString())));
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
    // A forgotten server must not keep this process alive. It ends with this process.
    this.keepAlive('unref');
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

  /** The streams, too: the guardian counts as exited once they have ended. */
  private keepAlive(how: 'ref' | 'unref'): void {
    for (const one of [this.guardian, ...this.guardian.stdio]) (one as Socket | null)?.[how]();
  }
}
