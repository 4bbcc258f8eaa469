import { execFile } from 'node:child_process';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** The folder of package.json. This file runs as `dist/tests/support.js`. */
export const home = fileURLToPath(new URL('../../', import.meta.url));

/** Polls until `holds` returns true. Throws an error that names `what` after 60 s. */
export async function eventually(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 60_000; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (await holds()) return;
    if (performance.now() > end) throw new Error(`not within 60 s: ${what}`);
  }
}

export const times = <T>(count: number, call: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, call));

/** Runs a script by this Node and returns its output. A script that fails rejects with its output. */
export async function node(args: readonly string[], cwd = home): Promise<string> {
  // NODE_TEST_CONTEXT would make a child report its own tests as part of these.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined, NO_COLOR: '1', FORCE_COLOR: undefined, CI: 'true' };
  const running = execute(process.execPath, args, { cwd, env, timeout: 300_000 });
  running.child.stdin?.end(); // a program that asks a question gets no answer
  const { stdout, stderr } = await running;
  return stdout + stderr;
}

/** A project of a user in a folder of its own, below the installed packages. */
export class Project {
  private constructor(private readonly folder: string) {}

  static async create(name: string): Promise<Project> {
    const folder = join(home, 'projects', name);
    await rm(folder, { recursive: true, force: true });
    await mkdir(join(folder, 'src'), { recursive: true });
    const project = new Project(folder);
    const compilerOptions = { rootDir: 'src', outDir: 'dist' };
    await project.write(
      'tsconfig.json',
      JSON.stringify({ extends: '../../tsconfig.json', compilerOptions, include: ['src'] }),
    );
    return project;
  }

  /** Copies a file of `examples/`. */
  use(path: string, to = basename(path)): Promise<void> {
    return cp(join(home, 'examples', path), join(this.folder, to));
  }

  write(path: string, text: string): Promise<void> {
    return writeFile(join(this.folder, path), text);
  }

  node(...args: string[]): Promise<string> {
    return node(args, this.folder);
  }

  /** Runs the program of an installed package. */
  run(program: string, ...args: string[]): Promise<string> {
    return this.node(join(home, 'node_modules', program), ...args);
  }

  tsc(): Promise<string> {
    return this.run('typescript/bin/tsc', '-p', '.');
  }
}
