// Builds the package: `tsc` compiles lib/ into .cache/build, and rollup bundles that into dist/esm and dist/cjs.
// Each folder has one file for each entry point, one declaration file for each, and the chunks that they share. The
// declarations of dist/esm re-export those of dist/cjs, so the types of both formats are the same. The command line is
// an ES module that uses the chunks of dist/esm.
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as prettier from 'prettier';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';
import ts from 'typescript';
import entryPoints from './entry-points.cjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const compiled = join(root, '.cache/build');
const dist = join(root, 'dist');
const require = createRequire(import.meta.url);
const { fileNameOf } = entryPoints;
const { dependencies, peerDependencies } = require('../package.json');

/** The entry points by the names of their files in dist/, each with its module in lib/. */
const ENTRIES = Object.fromEntries(
  Object.entries(entryPoints.modules).map(([specifier, path]) => [
    fileNameOf(specifier),
    path.replace(/^lib\/|\.ts$/g, ''),
  ]),
);
const FORMATS = [
  { folder: 'esm', type: 'module', format: 'es' },
  { folder: 'cjs', type: 'commonjs', format: 'cjs' },
];

/** The warnings of rollup that do not fail the build. */
const isHarmless = ({ code, message }) =>
  // The helpers that tsc writes for decorators begin with `this && this.__decorate`.
  code === 'THIS_IS_UNDEFINED' ||
  // The declarations use types that are not exported. The applications of `test/packaging` compile with them.
  (code === 'PLUGIN_WARNING' && message.includes('type exports with no public re-export'));

const prettierOptions = await prettier.resolveConfig(fileURLToPath(import.meta.url));
const packages = Object.keys({ ...dependencies, ...peerDependencies });
const isExternal = (id) => isBuiltin(id) || packages.some((name) => id === name || id.startsWith(`${name}/`));

async function compile() {
  const child = spawn(process.execPath, [require.resolve('typescript/bin/tsc'), '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: 'inherit',
  });
  const code = await new Promise((resolve, reject) => child.on('error', reject).on('exit', resolve));
  if (code !== 0) throw new Error('tsc failed');
}

/** Formats the code as the sources are. Its comments are left out, because the declarations have them. */
const printed = {
  name: 'printed',
  async renderChunk(code, { fileName }) {
    const compilerOptions = { target: 'es2022', module: 'esnext', removeComments: true };
    const { outputText } = ts.transpileModule(code, { fileName, compilerOptions });
    return { code: await prettier.format(outputText, { ...prettierOptions, useTabs: true, parser: 'babel' }), map: null };
  },
};

/** Gives CommonJS its file name for `createRequire(import.meta.url)`, in place of a module that computes the URL. */
const fileName = {
  name: 'file-name',
  resolveImportMeta: (property, { format }) => (format === 'cjs' && property === 'url' ? '__filename' : null),
};

/** Fails the build at a warning that may matter. */
function onwarn(warning) {
  if (!isHarmless(warning)) throw new Error(`${warning.code}: ${warning.message}`);
}

/** Bundles the compiled files with this extension. The build fails on an import that is not a dependency. */
function bundle(entries, extension, plugins) {
  return rollup({
    input: Object.fromEntries(Object.entries(entries).map(([name, path]) => [name, join(compiled, path + extension)])),
    external: isExternal,
    plugins,
    onwarn,
    logLevel: 'warn',
  });
}

/** The entry points that load the engine, and the command line. All others load a small part of the library. */
const WITH_ENGINE = new Set(['index', 'standalone', 'testing', 'board', 'terminus', 'cli']);

/**
 * Returns the function that assigns a shared module to its chunk: `nest` needs Nest, `base` is all that entry points
 * without the engine load, and `library` is the rest. The modules of a chunk import only that chunk and those before.
 */
function chunkOf(entries) {
  const nameOf = (id) => relative(compiled, id).replace(/(\.d\.ts|\.js)$/, '');
  const entryOf = new Map(Object.entries(entries).map(([name, path]) => [path, name]));
  const reachedBy = (id, getModuleInfo, seen = new Set()) => {
    if (seen.has(id)) return new Set();
    seen.add(id);
    const { importers, dynamicImporters } = getModuleInfo(id);
    const names = new Set([...importers, ...dynamicImporters].flatMap((one) => [...reachedBy(one, getModuleInfo, seen)]));
    const own = entryOf.get(nameOf(id));
    return own === undefined ? names : names.add(own);
  };
  return (id, { getModuleInfo }) => {
    const name = nameOf(id);
    const entryNames = [...reachedBy(id, getModuleInfo)];
    if (entryOf.has(name) || entryNames.length < 2) return null;
    if (name.startsWith('nest/')) return 'nest';
    return entryNames.every((entry) => WITH_ENGINE.has(entry)) ? 'library' : 'base';
  };
}

const outputFor = (entries, extension) => ({
  entryFileNames: `[name]${extension}`,
  chunkFileNames: `chunks/[name]${extension}`,
  manualChunks: chunkOf(entries),
  onlyExplicitManualChunks: true,
  hoistTransitiveImports: false,
  minifyInternalExports: false,
});

/** For tools that read the names of a CommonJS module's exports from its text. */
const READABLE_EXPORTS = { esModule: true, generatedCode: { preset: 'es2015', arrowFunctions: false, symbols: false } };

/** Makes the first file of the command line executable. */
const executable = {
  name: 'executable',
  renderChunk: (code, { name }) => (name === 'cli' ? { code: `#!/usr/bin/env node\n${code}`, map: null } : null),
};

async function bundleCode({ folder, type, format }) {
  const entries = format === 'es' ? { ...ENTRIES, cli: 'cli/bin' } : ENTRIES;
  const code = await bundle(entries, '.js', [printed, fileName, executable]);
  const options = { format, interop: 'auto', externalLiveBindings: false, ...READABLE_EXPORTS };
  await code.write({ ...outputFor(entries, '.js'), ...options, dir: join(dist, folder) });
  await code.close();
  writeFileSync(join(dist, folder, 'package.json'), `${JSON.stringify({ type })}\n`);
}

/** Lets the declarations compile without ioredis, for applications with a node-redis client. Its types are `any`. */
const withoutIoredis = {
  name: 'without-ioredis',
  renderChunk: (code) => ({ code: code.replace(/^(?=import .* from 'ioredis';$)/m, '// @ts-ignore\n'), map: null }),
};

async function bundleTypes() {
  // Its last step makes entry points import each other, and so their peers.
  const { generateBundle: _, ...declarations } = dts();
  const types = await bundle(ENTRIES, '.d.ts', [declarations, withoutIoredis]);
  await types.write({ ...outputFor(ENTRIES, '.d.ts'), format: 'es', dir: join(dist, 'cjs') });
  await types.close();
  for (const name of Object.keys(ENTRIES)) {
    writeFileSync(join(dist, 'esm', `${name}.d.ts`), `export * from '../cjs/${name}.js';\n`);
  }
}

try {
  for (const folder of [compiled, dist]) rmSync(folder, { recursive: true, force: true });
  await compile();
  mkdirSync(join(dist, 'esm'), { recursive: true });
  await Promise.all([...FORMATS.map(bundleCode), bundleTypes()]);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
