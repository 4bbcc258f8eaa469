import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { GuardedProcess } from './guardian.ts';
import { serverInfo } from './server-info.ts';
import type { RedisServer, StartOptions } from './types.ts';

export interface RedisBinary {
  readonly path: string;
  readonly env: NodeJS.ProcessEnv;
  readonly version: string;
  readonly description: string;
}

const START_TIMEOUT_MS = 10_000;
/** A free port may be taken before the server binds it. */
const PORT_TRIES = 3;

/** One that nobody listens on at this moment. */
export async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

function serverArguments(binary: RedisBinary, port: number, args: readonly string[]): string[] {
  const debug = Number.parseInt(binary.version, 10) >= 7 ? ['--enable-debug-command', 'yes'] : [];
  const quiet = ['--loglevel', 'warning', '--save', '', '--appendonly', 'no'];
  return ['--port', String(port), '--bind', '127.0.0.1', ...quiet, ...debug, ...args];
}

function serverUrl(port: number, args: readonly string[]): string {
  const at = args.indexOf('--requirepass');
  const password = at < 0 ? '' : `:${encodeURIComponent(args[at + 1])}@`;
  return `redis://${password}127.0.0.1:${port}`;
}

/** A redis-server that is our child, so that it can be stopped, killed, paused and restarted. */
class LocalServer implements RedisServer {
  readonly url: string;
  readonly version: string;
  readonly description: string;
  pid: number | undefined;
  private process: GuardedProcess | undefined;

  constructor(
    private readonly binary: RedisBinary,
    readonly port: number,
    private readonly args: readonly string[],
  ) {
    this.url = serverUrl(port, args);
    this.version = binary.version;
    this.description = binary.description;
  }

  async start(): Promise<void> {
    const process = new GuardedProcess(this.binary.path, serverArguments(this.binary, this.port, this.args), {
      ...this.binary.env,
    });
    this.process = process;
    try {
      this.pid = await this.ready(process);
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.process?.stop();
    this.pid = undefined;
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.process?.exited;
    this.pid = undefined;
  }

  pause(): void {
    this.signal('SIGSTOP');
  }

  resume(): void {
    this.signal('SIGCONT');
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  private signal(name: NodeJS.Signals): void {
    if (this.pid === undefined) throw new Error(`${this.description} on port ${this.port} does not run`);
    process.kill(this.pid, name);
  }

  private async ready(process: GuardedProcess): Promise<number> {
    const giveUpAt = performance.now() + START_TIMEOUT_MS;
    while (!process.hasExited) {
      try {
        return (await serverInfo(this.url)).pid;
      } catch (error) {
        if (performance.now() > giveUpAt) throw new Error(`no answer on port ${this.port}`, { cause: error });
        await sleep(20);
      }
    }
    throw new Error(`${this.binary.path} ended at once: ${process.output}`);
  }
}

export async function startLocalServer(binary: RedisBinary, options: StartOptions = {}): Promise<RedisServer> {
  for (let left = options.port === undefined ? PORT_TRIES : 1; ; left--) {
    const server = new LocalServer(binary, options.port ?? (await freePort()), options.args ?? []);
    try {
      await server.start();
      return server;
    } catch (error) {
      if (left <= 1 || !/address already in use/i.test((error as Error).message)) throw error;
    }
  }
}
