import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as ts from 'typescript';
import { run } from './command.js';

/** A project in which the package and some of its peers are installed, and no other package. */
export class Alone {
  private constructor(private readonly folder: string) {}

  /**
   * Makes the project.
   *
   * @param installed the folder of the installed package, beside those of all peers.
   * @param packages the peers, and what the compiler needs.
   */
  static async create(folder: string, installed: string, packages: readonly string[]): Promise<Alone> {
    const from = dirname(installed);
    const modules = join(folder, 'node_modules');
    // Copies, because a package that is linked finds what is beside its own folder.
    for (const name of ['nestjs-redis-lock', 'acorn']) {
      await cp(join(from, name), join(modules, name), { recursive: true });
    }
    for (const name of packages) {
      await mkdir(dirname(join(modules, name)), { recursive: true });
      await symlink(join(from, name), join(modules, name));
    }
    await writeFile(join(folder, 'package.json'), '{}');
    return new Alone(folder);
  }

  /** Runs a program in a format. Returns its output. */
  async node(extension: 'mjs' | 'cjs', program: string): Promise<string> {
    const file = `program.${extension}`;
    await writeFile(join(this.folder, file), program);
    // Node would load the ES module for `require`, too, as of 20.19.
    const isSupported = process.allowedNodeEnvironmentFlags.has('--experimental-require-module');
    const flags = extension === 'cjs' && isSupported ? ['--no-experimental-require-module'] : [];
    return run(`alone: ${extension}`, process.execPath, [...flags, file], { cwd: this.folder });
  }

  /** Compiles a program with the declarations of the package. Returns the errors in both. */
  async errorsOf(source: string): Promise<readonly string[]> {
    const file = join(this.folder, 'source.mts');
    await writeFile(file, source);
    const program = ts.createProgram([file], {
      target: ts.ScriptTarget.ES2022,
      lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
      module: ts.ModuleKind.NodeNext,
      strict: true,
      types: ['node'],
      typeRoots: [join(this.folder, 'node_modules/@types')],
      skipLibCheck: false,
      noEmit: true,
    });
    const isOurs = ({ fileName }: ts.SourceFile): boolean =>
      fileName === file || fileName.includes(`${this.folder}/node_modules/nestjs-redis-lock/`);
    const files = program.getSourceFiles().filter(isOurs);
    if (files.length < 2) throw new Error('the declarations of the package are not found');
    return [
      ...program.getOptionsDiagnostics(),
      ...files.flatMap((each) => [...program.getSyntacticDiagnostics(each), ...program.getSemanticDiagnostics(each)]),
    ].map(({ file: at, messageText }) => `${at?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`);
  }
}
