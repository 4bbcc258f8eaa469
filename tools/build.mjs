// Builds the package: `tsc` compiles lib/ into .cache/build, and rollup bundles that into dist/esm and dist/cjs.
// Each folder has one file for each entry point, one declaration file for each, and the chunks that they share. The
// command line has a bundle of its own in dist/cli.
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { minifySync } from '@swc/core';
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
    return { code: await prettier.format(outputText, { ...prettierOptions, parser: 'babel' }), map: null };
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
function bundle(extension, plugins) {
  return rollup({
    input: Object.fromEntries(Object.entries(ENTRIES).map(([name, path]) => [name, join(compiled, path + extension)])),
    external: isExternal,
    plugins,
    onwarn,
    logLevel: 'warn',
  });
}

/** Names a chunk after its last module, as rollup does, except the chunk of the lock service. */
function chunkName({ moduleIds }) {
  const modules = moduleIds.map((id) => relative(compiled, id).replace(/(\.d\.ts|\.js)$/, ''));
  if (modules.includes('lock.service')) return 'library';
  return basename(modules.at(-1).replace(/\/index$/, ''));
}

const outputFor = (extension) => ({
  entryFileNames: `[name]${extension}`,
  chunkFileNames: (chunk) => `chunks/${chunkName(chunk)}${extension}`,
  hoistTransitiveImports: false,
  minifyInternalExports: false,
});

/** For tools that read the names of a CommonJS module's exports from its text. */
const READABLE_EXPORTS = { esModule: true, generatedCode: { preset: 'es2015', arrowFunctions: false, symbols: false } };

async function bundleCode() {
  const code = await bundle('.js', [printed, fileName]);
  for (const { folder, type, format } of FORMATS) {
    // Small chunks join others that are loaded with them. Those of declarations would bring imports of other peers.
    const options = {
      experimentalMinChunkSize: 15_000,
      format,
      interop: 'auto',
      externalLiveBindings: false,
      ...READABLE_EXPORTS,
    };
    await code.write({ ...outputFor('.js'), ...options, dir: join(dist, folder) });
    writeFileSync(join(dist, folder, 'package.json'), `${JSON.stringify({ type })}\n`);
  }
  await code.close();
}

/** Lets the declarations compile without ioredis, for applications with a node-redis client. Its types are `any`. */
const withoutIoredis = {
  name: 'without-ioredis',
  renderChunk: (code) => ({ code: code.replace(/^(?=import .* from 'ioredis';$)/m, '// @ts-ignore\n'), map: null }),
};

async function bundleTypes() {
  // Its last step makes entry points import each other, and so their peers.
  const { generateBundle: _, ...declarations } = dts();
  const types = await bundle('.d.ts', [declarations, withoutIoredis]);
  for (const { folder } of FORMATS) {
    await types.write({ ...outputFor('.d.ts'), format: 'es', dir: join(dist, folder) });
  }
  await types.close();
}

/** Makes the first file of the command line executable. Minified, because its code is a copy of the library's. */
const executable = {
  name: 'executable',
  renderChunk(code, { isEntry }) {
    const options = { module: true, ecma: 2022, compress: true, mangle: true, format: { comments: false } };
    return { code: `${isEntry ? '#!/usr/bin/env node\n' : ''}${minifySync(code, options).code}\n`, map: null };
  },
};

/** Bundles the command line. Its copy of the code leaves the chunks of the entry points as they are. */
async function bundleCli() {
  const input = join(compiled, 'cli/bin.js');
  const code = await rollup({ input, external: isExternal, plugins: [executable], onwarn });
  await code.write({
    dir: join(dist, 'cli'),
    format: 'es',
    entryFileNames: '[name].js',
    chunkFileNames: '[name].js',
    hoistTransitiveImports: false,
    externalLiveBindings: false,
  });
  await code.close();
}

try {
  for (const folder of [compiled, dist]) rmSync(folder, { recursive: true, force: true });
  await compile();
  mkdirSync(dist);
  await Promise.all([bundleCode(), bundleTypes(), bundleCli()]);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
