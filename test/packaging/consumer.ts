import { cp, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './command.js';

const templates = __dirname;

/** npm's cache does not like two writers, nor the machine two installs. */
let installing: Promise<unknown> = Promise.resolve();

/** A project of a user, made from a template outside of this repository, with the tarball installed. */
export class Consumer {
  private readonly folder: string;
  private readonly ready: Promise<void>;

  /** @param sources what it has of `shared/`. */
  constructor(
    readonly name: string,
    sources: readonly string[],
    folder: string,
    tarball: Promise<string>,
  ) {
    this.folder = join(folder, name);
    this.ready = installing.then(async () => this.install(await tarball, sources));
    installing = this.ready.catch(() => undefined);
  }

  /** Where the installed package is. */
  async installed(): Promise<string> {
    await this.ready;
    return join(this.folder, 'node_modules', 'nestjs-redis-lock');
  }

  async tsc(...args: string[]): Promise<string> {
    return this.node(`tsc ${args.join(' ')}`, ['node_modules/typescript/bin/tsc', ...args]);
  }

  /** Ends with an error where it does not end by itself. */
  async node(label: string, args: string[]): Promise<string> {
    await this.ready;
    return run(`${this.name}: ${label}`, process.execPath, args, { cwd: this.folder });
  }

  /** Runs what is expected to fail. @returns what it says. */
  async refused(label: string, args: string[]): Promise<string> {
    await this.ready;
    const options = { cwd: this.folder, mustFail: true };
    return run(`${this.name}: ${label}, which is to fail`, process.execPath, args, options);
  }

  async write(file: string, text: string): Promise<void> {
    await this.ready;
    await writeFile(join(this.folder, file), text);
  }

  private async install(tarball: string, sources: readonly string[]): Promise<void> {
    const { folder } = this;
    await cp(join(templates, this.name), folder, { recursive: true });
    await mkdir(join(folder, 'src'));
    for (const source of sources) await cp(join(templates, 'shared', source), join(folder, 'src', source));
    const quietly = ['--no-audit', '--no-fund', '--no-package-lock', '--prefer-offline', '--loglevel=error'];
    const args = ['install', ...quietly, tarball];
    await run(`${this.name}: npm install`, 'npm', args, { cwd: folder });
    // As two versions in one tree would be.
    const inFolder = join('node_modules', 'nestjs-redis-lock');
    await cp(join(folder, inFolder), join(folder, 'second', inFolder), { recursive: true });
  }
}

/** Builds the package and packs it. @returns the path of the tarball. */
export async function packTarball(root: string, folder: string): Promise<string> {
  await run('npm pack, which builds', 'npm', ['pack', '--pack-destination', folder], { cwd: root });
  const tarball = (await readdir(folder)).find((file) => file.endsWith('.tgz'));
  if (tarball === undefined) throw new Error('npm pack left no tarball');
  return join(folder, tarball);
}
