import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { GuardedProcess } from './guardian.ts';
import { serverInfo } from './server-info.ts';
import type { RedisBinary, RedisServer, StartOptions } from './types.ts';

const START_TIMEOUT_MS = 10_000;
/** Another process may take a free port before the server binds it. */
const PORT_TRIES = 3;

/** Returns a port without a listener. */
export async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** The file in which a Sentinel keeps its state over restarts. */
class SentinelFile {
  readonly path: string;
  private readonly folder = mkdtempSync(join(tmpdir(), 'sentinel-'));

  constructor(lines: string) {
    this.path = join(this.folder, 'sentinel.conf');
    writeFileSync(this.path, lines);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function sentinelArguments(file: SentinelFile, port: number): string[] {
  return [file.path, '--sentinel', '--port', String(port), '--bind', '127.0.0.1', '--loglevel', 'warning'];
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

/** A redis-server child process that can be stopped, killed, paused and restarted. */
class LocalServer implements RedisServer {
  readonly url: string;
  readonly version: string;
  readonly description: string;
  pid: number | undefined;
  private process: GuardedProcess | undefined;
  private readonly args: readonly string[];
  private readonly sentinelFile: SentinelFile | undefined;

  constructor(
    private readonly binary: RedisBinary,
    readonly port: number,
    private readonly options: StartOptions,
  ) {
    const { args = [], sentinel } = options;
    this.url = serverUrl(port, args);
    this.sentinelFile = sentinel === undefined ? undefined : new SentinelFile(sentinel);
    this.args = this.sentinelFile ? sentinelArguments(this.sentinelFile, port) : serverArguments(binary, port, args);
    this.version = binary.version;
    this.description = binary.description;
  }

  async start(): Promise<void> {
    const process = new GuardedProcess(this.binary.path, this.args, this.binary.env, this.options.variables);
    this.process = process;
    try {
      this.pid = await this.ready(process);
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.end();
    this.sentinelFile?.remove();
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.process?.ended();
    this.pid = undefined;
  }

  pause(): void {
    this.signal('SIGSTOP');
  }

  resume(): void {
    this.signal('SIGCONT');
  }

  async restart(): Promise<void> {
    await this.end();
    await this.start();
  }

  private async end(): Promise<void> {
    await this.process?.stop();
    this.pid = undefined;
  }

  private signal(name: NodeJS.Signals): void {
    if (this.pid === undefined) throw new Error(`${this.description} on port ${this.port} does not run`);
    process.kill(this.pid, name);
  }

  /** Waits until the started server replies. Another process may have taken its port. */
  private async ready(process: GuardedProcess): Promise<number> {
    const giveUpAt = performance.now() + START_TIMEOUT_MS;
    let reason: unknown;
    while (!process.hasExited) {
      try {
        const { pid } = await serverInfo(this.url);
        if (pid === process.pid) return pid;
        reason = new Error(`process ${pid} replies, not ${process.pid}`);
      } catch (error) {
        reason = error;
      }
      if (performance.now() > giveUpAt) throw new Error(`no reply on port ${this.port}`, { cause: reason });
      await sleep(20);
    }
    throw new Error(`${this.binary.path} ended at once: ${process.output}`);
  }
}

export async function startLocalServer(binary: RedisBinary, options: StartOptions = {}): Promise<RedisServer> {
  for (let left = options.port === undefined ? PORT_TRIES : 1; ; left--) {
    const server = new LocalServer(binary, options.port ?? (await freePort()), options);
    try {
      await server.start();
      return server;
    } catch (error) {
      if (left <= 1 || !/address already in use/i.test((error as Error).message)) throw error;
    }
  }
}
