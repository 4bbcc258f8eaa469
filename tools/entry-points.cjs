// The entry points of the package and their modules, read from `paths` in tsconfig.json. The build, Jest, the hooks for
// child processes and the architecture test use this list.
const { readFileSync } = require('node:fs');
const path = require('node:path');

const NAME = 'nestjs-redis-lock';
const { paths } = JSON.parse(readFileSync(path.join(__dirname, '../tsconfig.json'), 'utf8')).compilerOptions;

/** By specifier, `nestjs-redis-lock/quorum`: the path from the root, `lib/stores/quorum/index.ts`. */
const modules = Object.fromEntries(
  Object.entries(paths).map(([specifier, [module]]) => [specifier, module.replace(/^\.\//, '')]),
);

/** Returns the name of the files in dist/: `quorum` for `nestjs-redis-lock/quorum`, `index` for the root. */
function fileNameOf(specifier) {
  return specifier === NAME ? 'index' : specifier.slice(NAME.length + 1);
}

module.exports = { fileNameOf, modules };
