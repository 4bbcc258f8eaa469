import { cp, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './command.js';

const SHARED = join(__dirname, 'shared');

/** The format of a consumer's modules, with the type in its `package.json`. */
export const FORMATS = { cjs: 'commonjs', esm: 'module' } as const;
export type Format = keyof typeof FORMATS;

/** npm's cache does not like two writers, nor the machine two installs. */
let installing: Promise<unknown> = Promise.resolve();

/** A project of a user outside of this repository, with the tarball installed. It has its code in both formats. */
export class Consumer {
  private readonly folder: string;
  private readonly ready: Promise<void>;

  constructor(
    readonly name: string,
    folder: string,
    tarball: Promise<string>,
  ) {
    this.folder = join(folder, name);
    this.ready = installing.then(async () => this.install(await tarball));
    installing = this.ready.catch(() => undefined);
  }

  /** Returns the folder of the installed package. */
  async installed(): Promise<string> {
    await this.ready;
    return join(this.folder, 'node_modules', 'nestjs-redis-lock');
  }

  /** Compiles the code in one format, with more options of the compiler. Returns the errors. */
  compile(format: Format, ...options: string[]): Promise<string> {
    return this.node(format, '../compile.cjs', ...options);
  }

  /** Runs a file in the folder of a format. Fails if it does not end by itself. Returns its output. */
  async node(format: Format, ...args: string[]): Promise<string> {
    await this.ready;
    return run(`${this.name}, ${format}: node ${args.join(' ')}`, process.execPath, args, {
      cwd: join(this.folder, format),
    });
  }

  private async install(tarball: string): Promise<void> {
    const { folder } = this;
    await cp(join(__dirname, this.name), folder, { recursive: true });
    const files = await readdir(SHARED);
    for (const [format, type] of Object.entries(FORMATS)) {
      await mkdir(join(folder, format, 'src'), { recursive: true });
      await writeFile(join(folder, format, 'package.json'), JSON.stringify({ type }));
      await cp(join(SHARED, 'tsconfig.json'), join(folder, format, 'tsconfig.json'));
      const sources = files.filter((name) => name.endsWith('.ts'));
      for (const source of sources) await cp(join(SHARED, source), join(folder, format, 'src', source));
    }
    await cp(join(SHARED, 'compile.cjs'), join(folder, 'compile.cjs'));
    await cp(join(SHARED, 'formats.mjs'), join(folder, 'esm', 'formats.mjs'));
    const quietly = ['--no-audit', '--no-fund', '--no-package-lock', '--prefer-offline', '--loglevel=error'];
    await run(`${this.name}: npm install`, 'npm', ['install', ...quietly, tarball], { cwd: folder });
  }
}

/** Builds the package and packs it. Returns the path of the tarball. */
export async function packTarball(root: string, folder: string): Promise<string> {
  await run('npm pack, which builds', 'npm', ['pack', '--pack-destination', folder], { cwd: root });
  const tarball = (await readdir(folder)).find((file) => file.endsWith('.tgz'));
  if (tarball === undefined) throw new Error('npm pack left no tarball');
  return join(folder, tarball);
}
