// Freezes the present code as a release, so that later code is tested beside it. Run it when a release is published:
//   node tools/freeze-release.mjs [wire version]     the version of the code by default
//   node tools/freeze-release.mjs --check            fails if this version of the package was not frozen
//
// It writes test/releases/<wire version>/:
// - library.mjs: the package's main entry and quorum(), as one minified file that imports its dependencies
// - scripts/: the Lua of each script, as instances send it
// - release.json: package version, commit, wire version, and the SHA-1 of each script
// It empties the list of compatible changes, because the list counts from the last release.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { minifySync } from '@swc/core';
import { rollup } from 'rollup';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const compiled = join(root, '.cache/release');
const require = createRequire(import.meta.url);
const { version, dependencies, peerDependencies } = require('../package.json');

const packages = Object.keys({ ...dependencies, ...peerDependencies });
const isExternal = (id) => isBuiltin(id) || packages.some((name) => id === name || id.startsWith(`${name}/`));

function compile() {
  rmSync(compiled, { recursive: true, force: true });
  const args = [require.resolve('typescript/bin/tsc'), '-p', 'tsconfig.build.json', '--outDir', compiled];
  execFileSync(process.execPath, [...args, '--declaration', 'false'], { cwd: root, stdio: 'inherit' });
  // The compiled files are ES modules.
  writeFileSync(join(compiled, 'package.json'), '{ "type": "module" }\n');
}

/** Returns the wire version of the compiled code. */
async function wireOf() {
  const file = join(compiled, 'redis/wire.js');
  if (!existsSync(file)) throw new Error('the code has no wire version: name it as an argument');
  const { WIRE_VERSION } = await import(pathToFileURL(file).href);
  return WIRE_VERSION;
}

/** Returns the text of each script by its name: `token/acquire`. */
async function scriptsOf() {
  const texts = {};
  const files = readdirSync(compiled, { recursive: true, encoding: 'utf8' });
  for (const path of files.filter((file) => basename(file) === 'scripts.js').toSorted()) {
    const { scripts } = await import(pathToFileURL(join(compiled, path)).href);
    for (const [name, { lua }] of Object.entries(scripts)) texts[`${basename(dirname(path))}/${name}`] = lua;
  }
  return texts;
}

async function bundle() {
  const onwarn = ({ code, message }) => {
    if (code !== 'THIS_IS_UNDEFINED' && code !== 'CIRCULAR_DEPENDENCY') throw new Error(`${code}: ${message}`);
  };
  const input = join(compiled, 'release.js');
  writeFileSync(input, "export * from './index.js';\nexport { quorum } from './stores/quorum/index.js';\n");
  const code = await rollup({ input, external: isExternal, onwarn });
  const { output } = await code.generate({ format: 'es', inlineDynamicImports: true });
  await code.close();
  // Nest reads the names of classes.
  const options = { module: true, mangle: { keep_classnames: true }, compress: { keep_classnames: true } };
  return minifySync(output[0].code, options).code;
}

const sha1 = (text) => createHash('sha1').update(text).digest('hex');

function checkFrozen() {
  const releases = join(root, 'test/releases');
  const frozen = readdirSync(releases)
    .map((name) => join(releases, name, 'release.json'))
    .filter(existsSync)
    .map((file) => JSON.parse(readFileSync(file, 'utf8')));
  if (frozen.some((release) => release.version === version && release.wire > 0)) return;
  console.error(
    `${version} is not frozen: run node tools/freeze-release.mjs, and commit the result before you publish.`,
  );
  process.exit(1);
}

if (process.argv[2] === '--check') {
  checkFrozen();
  process.exit();
}

compile();
const wire = process.argv[2] === undefined ? await wireOf() : Number(process.argv[2]);
const folder = join(root, 'test/releases', String(wire));
const texts = await scriptsOf();
const commit = execFileSync('git', ['rev-parse', '--short=10', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
const scripts = Object.fromEntries(Object.entries(texts).map(([name, lua]) => [name, sha1(lua)]));

const library = await bundle();
rmSync(folder, { recursive: true, force: true });
for (const [name, lua] of Object.entries(texts)) {
  const file = join(folder, 'scripts', `${name}.lua`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, lua);
}
writeFileSync(join(folder, 'library.mjs'), `${library}\n`);
writeFileSync(join(folder, 'release.json'), `${JSON.stringify({ version, commit, wire, scripts }, null, 2)}\n`);
writeFileSync(join(root, 'test/releases/compatible-changes.json'), '{}\n');
const kilobytes = Math.round(readFileSync(join(folder, 'library.mjs')).length / 1000);
console.log(
  `Froze ${version} (${commit}) with wire version ${wire}: ${Object.keys(texts).length} scripts, ${kilobytes} kB`,
);
