// Bundles the command line into dist/: `cli.js` starts it, `cli-main.js` reads the arguments, and `cli-lock-admin.js`
// has what needs ioredis. Its own copy of the library's code, minified, so that the entry points stay as they are.
import { chmodSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { minifySync } from '@swc/core';
import { rollup } from 'rollup';

const require = createRequire(import.meta.url);
const commander = dirname(require.resolve('commander/package.json'));
const LIB = join(commander, 'lib');

/** The modules of commander with what the command line imports. */
const COMMANDER = ['argument', 'command', 'error', 'option'].map((name) => `export * from './${name}.js';`).join('\n');

/** Where the facade of commander is. There is no such file. */
const FACADE = join(LIB, 'facade.js');

/** Converts one file of commander from CommonJS. Throws for a form that it does not know. */
export function toModule(code, file) {
  const converted = code
    .replaceAll(/^const (\w+) = require\('([^']+)'\)\.(\w+);$/gm, "import { $3 as $1 } from '$2';")
    .replaceAll(/^const (\w+|\{[^}]+\}) = require\('([^']+)'\);$/gm, "import $1 from '$2';")
    .replaceAll(/^exports\.(\w+) = (\w+);.*$/gm, 'export { $2 as $1 };');
  const left = /^.*(?:\brequire\(|\bexports\.).*$/m.exec(converted)?.[0];
  if (left !== undefined) throw new Error(`${file} of commander has a line that the build cannot convert: ${left}`);
  return converted;
}

/** Commander 14 is CommonJS, which rollup does not read. */
const bundledCommander = {
  name: 'bundled-commander',
  resolveId(id, importer) {
    if (id === 'commander') return FACADE;
    if (!importer?.startsWith(LIB) || !id.startsWith('./')) return null;
    return join(LIB, id.endsWith('.js') ? id : `${id}.js`);
  },
  load(id) {
    if (id === FACADE) return COMMANDER;
    return id.startsWith(LIB) ? toModule(readFileSync(id, 'utf8'), id) : null;
  },
};

const SHEBANG = '#!/usr/bin/env node\n';

/** The licence of commander stands in the file that has its code. */
const LICENCE = `/*! This file contains commander ${require('commander/package.json').version}.
${readFileSync(join(commander, 'LICENSE'), 'utf8').trim()} */
`;

const minified = {
  name: 'minified',
  renderChunk(code, { isEntry, moduleIds }) {
    const options = { module: true, ecma: 2022, compress: true, mangle: true, format: { comments: false } };
    const start = (isEntry ? SHEBANG : '') + (moduleIds.some((id) => id.startsWith(LIB)) ? LICENCE : '');
    return { code: `${start}${minifySync(code, options).code}\n`, map: null };
  },
};

/**
 * Writes the bundle.
 *
 * @param options.compiled the folder with the compiled files of lib/.
 * @param options.dist where the bundle is written.
 * @param options.isExternal returns whether an import is left to Node.
 * @param options.onwarn is called for each warning of rollup.
 */
export async function bundleCli({ compiled, dist, isExternal, onwarn }) {
  const plugins = [bundledCommander, minified];
  const external = (id) => isExternal(id);
  const code = await rollup({ input: { cli: join(compiled, 'cli/bin.js') }, external, plugins, onwarn });
  await code.write({
    dir: dist,
    format: 'es',
    entryFileNames: '[name].js',
    chunkFileNames: 'cli-[name].js',
    hoistTransitiveImports: false,
    minifyInternalExports: true,
    externalLiveBindings: false,
  });
  await code.close();
  // npm does the same when it installs the package.
  chmodSync(join(dist, 'cli.js'), 0o755);
}
