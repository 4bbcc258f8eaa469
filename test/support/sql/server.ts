import { execFile } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { GuardedProcess } from '../redis/guardian.js';

const run = promisify(execFile);
const START_TIMEOUT_MS = 30_000;
const NOBODY = 65_534;

/** Debian keeps PostgreSQL's programs here, by version, outside of the PATH. */
const POSTGRES_VERSIONS = '/usr/lib/postgresql';

/** Returns the path of a program. Undefined if it is not installed. */
export function findProgram(name: string): string | undefined {
  const versions = existsSync(POSTGRES_VERSIONS) ? readdirSync(POSTGRES_VERSIONS) : [];
  const folders = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    '/usr/sbin',
    ...versions.map((version) => join(POSTGRES_VERSIONS, version, 'bin')),
  ];
  return folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
}

/** A database server for one test, with a folder that is removed with it. */
export class SqlServer {
  private constructor(
    private readonly process: GuardedProcess,
    private readonly folder: string,
  ) {}

  static async postgres(port: number): Promise<SqlServer> {
    const folder = mkdtempSync(join(tmpdir(), 'postgres-'));
    const isRoot = process.getuid?.() === 0;
    if (isRoot) chownSync(folder, NOBODY, NOBODY);
    // PostgreSQL does not run as root.
    const asNobody = ['--reuid', String(NOBODY), '--regid', String(NOBODY), '--clear-groups', '--'];
    const command = (name: string, ...args: string[]): [string, string[]] => {
      const program = findProgram(name) as string;
      return isRoot ? ['setpriv', [...asNobody, program, ...args]] : [program, args];
    };
    const data = join(folder, 'data');
    await run(...command('initdb', '-D', data, '-U', 'test', '-A', 'trust', '-E', 'UTF8', '--no-locale', '-N'), {
      cwd: folder,
    });
    const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', `port=${port}`, 'fsync=off'];
    const args = settings.flatMap((setting) => ['-c', setting]);
    const [program, all] = command('postgres', '-D', data, ...args);
    return new SqlServer(new GuardedProcess(program, all, { ...process.env }), folder);
  }

  static async mariadb(port: number): Promise<SqlServer> {
    const folder = mkdtempSync(join(tmpdir(), 'mariadb-'));
    const data = join(folder, 'data');
    const user = process.getuid?.() === 0 ? ['--user=root'] : [];
    const install = ['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', ...user];
    await run(findProgram('mariadb-install-db') as string, [...install, '--skip-test-db']);
    const args = ['--no-defaults', `--datadir=${data}`, `--port=${port}`, '--bind-address=127.0.0.1', ...user];
    const program = findProgram('mariadbd') as string;
    return new SqlServer(
      new GuardedProcess(program, [...args, `--socket=${join(folder, 'socket')}`], { ...process.env }),
      folder,
    );
  }

  /** Connects, and repeats it until the server accepts the connection. */
  async ready<T>(connect: () => Promise<T>): Promise<T> {
    for (const end = performance.now() + START_TIMEOUT_MS; ; await sleep(50)) {
      try {
        // After an exit, another server may have the port.
        if (this.process.hasExited) throw new Error('it has ended');
        return await connect();
      } catch (error) {
        if (this.process.hasExited || performance.now() > end) {
          throw new Error(`the database does not start: ${this.process.output}`, { cause: error });
        }
      }
    }
  }

  async stop(): Promise<void> {
    await this.process.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
