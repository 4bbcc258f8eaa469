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
    return {
      code: await prettier.format(outputText, { ...prettierOptions, useTabs: true, parser: 'babel' }),
      map: null,
    };
  },
};

/** Gives CommonJS its file name for `createRequire(import.meta.url)`, in place of a module that computes the URL. */
const fileName = {
  name: 'file-name',
  resolveImportMeta: (property, { format }) => (format === 'cjs' && property === 'url' ? '__filename' : null),
};

/** The name of a compiled module: `engine/lock`. */
const nameOf = (id) => relative(compiled, id).replace(/(\.d\.ts|\.js)$/, '');

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

/** Modules of text only, with the names of their files. dist/esm imports those of dist/cjs. */
const TEXTS = { 'stores/token/scripts': 'scripts', 'board/assets': 'page' };
const textPath = (name) => join(dist, 'cjs/chunks', `${name}.js`);

/** Makes the ES modules import the texts of dist/cjs. */
const sharedTexts = {
  name: 'shared-texts',
  async resolveId(source, importer, options) {
    const resolved = await this.resolve(source, importer, options);
    const text = resolved && TEXTS[nameOf(resolved.id)];
    return text ? { id: textPath(text), external: 'relative' } : resolved;
  },
  // rollup names the folder that contains the modules of the library, too.
  renderChunk: (code) => ({ code: code.replaceAll('../dist/cjs/', 'cjs/'), map: null }),
};

/** The entry points that load the engine, and the command line. All others load a small part of the library. */
const WITH_ENGINE = new Set(['index', 'standalone', 'testing', 'board', 'terminus', 'cli']);

/**
 * Returns the function that assigns a shared module to its chunk: `nest` needs Nest, `base` is all that entry points
 * without the engine load, and `library` is the rest. The modules of a chunk import only that chunk and those before.
 */
function chunkOf(entries) {
  const entryOf = new Map(Object.entries(entries).map(([name, path]) => [path, name]));
  const reachedBy = (id, getModuleInfo, seen = new Set()) => {
    if (seen.has(id)) return new Set();
    seen.add(id);
    const { importers, dynamicImporters } = getModuleInfo(id);
    const names = new Set(
      [...importers, ...dynamicImporters].flatMap((one) => [...reachedBy(one, getModuleInfo, seen)]),
    );
    const own = entryOf.get(nameOf(id));
    return own === undefined ? names : names.add(own);
  };
  return (id, { getModuleInfo }) => {
    const name = nameOf(id);
    if (name in TEXTS) return TEXTS[name];
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
  const isEsm = format === 'es';
  const entries = isEsm ? { ...ENTRIES, cli: 'cli/bin' } : ENTRIES;
  const code = await bundle(entries, '.js', [...(isEsm ? [sharedTexts] : []), printed, fileName, executable]);
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

/**
 * Removes the docstrings that no editor shows to a user: those of private members, and of the members of classes and
 * interfaces that no entry point exports and no other type includes. Indents by tabs, as the code.
 */
const printedTypes = {
  name: 'printed-types',
  generateBundle(_, chunks) {
    const all = Object.values(chunks);
    const sources = all.map(({ fileName: name, code }) =>
      ts.createSourceFile(name, code, ts.ScriptTarget.ES2022, true),
    );
    const shown = new Set(all.filter(({ isEntry }) => isEntry).flatMap((chunk) => chunk.exports));
    for (const name of sources.flatMap(includedNames)) shown.add(name);
    for (const [i, { statements }] of sources.entries()) {
      const hidden = statements
        .filter((one) => ts.isClassDeclaration(one) || ts.isInterfaceDeclaration(one))
        .flatMap(({ name, members }) => members.filter((member) => !shown.has(name.text) || isPrivate(member)));
      let { code } = all[i];
      for (const member of hidden.toReversed()) {
        code = `${code.slice(0, member.getFullStart())}\n    ${code.slice(member.getStart())}`;
      }
      all[i].code = code.replaceAll(/^(?: {4})+/gm, (spaces) => '\t'.repeat(spaces.length / 4));
    }
  },
};

/** Returns the names of the types whose members other types get: by `extends`, or as a part of an alias. */
function includedNames(source) {
  const names = [];
  const visit = (node, isIncluded) => {
    if (isIncluded && ts.isIdentifier(node)) names.push(node.text);
    const includes = isIncluded || ts.isHeritageClause(node) || ts.isTypeAliasDeclaration(node);
    ts.forEachChild(node, (child) => visit(child, includes));
  };
  visit(source, false);
  return names;
}

const isPrivate = (member) => (ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) !== 0;

async function bundleTypes() {
  // Its last step makes entry points import each other, and so their peers.
  const { generateBundle: _, ...declarations } = dts();
  const types = await bundle(ENTRIES, '.d.ts', [declarations, withoutIoredis, printedTypes]);
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
