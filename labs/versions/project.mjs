// Projects of users outside of this repository, with the packed package. Each has its code twice: as ES modules in esm/
// and as CommonJS in cjs/, which share node_modules.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
const SHARED = join(ROOT, 'test/packaging/shared');
const EXACT = join(ROOT, 'test/packaging/exact-optional/options.ts');
const SOURCES = ['goods.ts', 'entries.ts', 'checks.ts', 'neighbours.ts', 'types.ts', 'main.ts'];
const NAME = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).name;

export const FORMATS = { esm: 'module', cjs: 'commonjs' };

/** Of an application that has no other. Declarations are checked where the types are tested. */
const COMPILER_OPTIONS = {
  target: 'es2022',
  lib: ['es2023', 'esnext.disposable'],
  strict: true,
  skipLibCheck: true,
  esModuleInterop: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  types: ['node'],
  rootDir: 'src',
  outDir: 'out',
};

/** Runs a program to its end. Returns its exit code, and all its output. */
export function run(command, args, { cwd = ROOT, env, timeoutMs = 300_000 } = {}) {
  const clean = { ...process.env, NODE_ENV: undefined, NODE_OPTIONS: undefined, FORCE_COLOR: undefined, NO_COLOR: '1' };
  const options = { cwd, env: { ...clean, ...env }, timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 1e8 };
  const { status, signal, error, stdout, stderr } = spawnSync(command, args, { ...options, encoding: 'utf8' });
  return { code: status ?? signal ?? 1, output: `${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}` };
}

/** Like {@link run}, and throws an error if the program fails. Returns its output. */
export function must(command, args, options) {
  const { code, output } = run(command, args, options);
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${output.slice(-4_000)}`);
  return output;
}

/** Builds and packs the package. Returns the path of the tarball. */
export function pack(folder) {
  must('npm', ['pack', '--pack-destination', folder]);
  const tarball = readdirSync(folder).find((file) => file.endsWith('.tgz'));
  return join(folder, tarball);
}

/** Installs packages into a new folder, without a lock file and without scripts. */
export function install(folder, packages, ...others) {
  mkdirSync(folder, { recursive: true });
  const manifest = { name: 'consumer', private: true, dependencies: packages };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  const quiet = ['--no-audit', '--no-fund', '--no-package-lock', '--ignore-scripts', '--prefer-offline'];
  must('npm', ['install', ...quiet, '--loglevel=error', ...others], { cwd: folder });
  return folder;
}

/** Returns the installed version of a package. */
export function versionOf(folder, name) {
  return JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')).version;
}

/** Makes an application in a folder. */
export function makeApplication(folder, packages, tarball) {
  // Sentry does not allow Nest 12 yet. Its filter works with it.
  install(folder, packages, tarball, '--force');
  const installed = join('node_modules', NAME);
  // As two versions in one tree would be.
  cpSync(join(folder, installed), join(folder, 'second', installed), { recursive: true });
  for (const [format, type] of Object.entries(FORMATS)) {
    const src = join(folder, format, 'src');
    mkdirSync(src, { recursive: true });
    writeFileSync(join(folder, format, 'package.json'), JSON.stringify({ type }));
    const config = { compilerOptions: { ...COMPILER_OPTIONS, module: 'nodenext' }, include: ['src'] };
    writeFileSync(join(folder, format, 'tsconfig.json'), JSON.stringify(config));
    for (const source of SOURCES) cpSync(join(SHARED, source), join(src, source));
    cpSync(EXACT, join(src, 'options.ts'));
  }
  return folder;
}

/** Compiles an application. Returns the errors of its own files and of the package's declarations. */
export function compile(tsc, folder, format, args = []) {
  const all = [tsc, '-p', '.', '--pretty', 'false', ...args];
  const { code, output } = run(process.execPath, all, { cwd: join(folder, format) });
  const errors = output.split('\n').filter((line) => /error TS\d+/.test(line));
  if (code !== 0 && errors.length === 0) return [output];
  const own = (line) => line.startsWith('src/') || !line.includes('node_modules/') || line.includes(`/${NAME}/`);
  return errors.filter(own);
}
