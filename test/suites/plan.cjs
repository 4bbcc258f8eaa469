// Which spec file runs in which part and suite. A suite loads Nest and the package once for many files.
const { readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '../..');

/** The folders and files of each suite of `npm test`. A file belongs to the first suite that names it. */
const quickSuites = {
  locks: ['test/locks/', 'test/contract/'],
  unit: ['test/unit/', 'test/architecture.spec.ts', 'test/chaos/', 'test/explorer/', 'labs/'],
  nest: ['test/nest/'],
  token: ['test/integration/token/', 'test/integration/token-scripts/'],
  redis: ['test/integration/', 'test/docs/', 'test/sample/'],
};

/** Marks a file that replaces modules. It runs alone, because a suite has loaded these modules already. */
const REPLACES_MODULES = /jest\.(?:doMock|mock|isolateModules)/;

const files = ['test', 'labs']
  .flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true }).map(
      (file) => `${folder}/${file.split(path.sep).join('/')}`,
    ),
  )
  .filter((file) => file.endsWith('.spec.ts') && !file.includes('/node_modules/'))
  .toSorted((one, other) => (one < other ? -1 : 1));

const isSlow = (file) => file.endsWith('.slow.spec.ts');
/** Shows that real clocks also work. */
const isRealTime = (file) => file.startsWith('test/real-time/');
const runsAlone = (file) => REPLACES_MODULES.test(readFileSync(path.join(root, file), 'utf8'));

/** Returns the files of each suite, and the files that run alone. */
function grouped(part, suites) {
  const groups = Object.fromEntries(Object.keys(suites).map((name) => [name, []]));
  const alone = [];
  for (const file of part) {
    const name = Object.keys(suites).find((suite) => suites[suite].some((start) => file.startsWith(start)));
    if (name === undefined || isSlow(file) || runsAlone(file)) alone.push(file);
    else groups[name].push(file);
  }
  return { groups, alone };
}

const isFull = (file) => isSlow(file) || isRealTime(file);
/** Each file of `npm run test:full` runs alone. */
const suitesOf = {
  quick: grouped(
    files.filter((file) => !isFull(file)),
    quickSuites,
  ),
  full: { groups: {}, alone: files.filter(isFull) },
};

/** Returns whether a run may have slow files, and so needs the packages of test/package.json. */
function isFullRun(part, paths) {
  return part === 'full' || paths.some((given) => given.includes('.slow'));
}

/**
 * Returns what a run of jest matches. Without a path that is a part: its suites, and the files that run alone. With a
 * path it is each file by itself, even of the other part. Slow files of a folder run with the part `full` only.
 *
 * @param {'quick' | 'full'} part
 * @param {readonly string[]} paths
 */
function matchesOf(part, paths) {
  if (paths.some((given) => /\bsuites?\b/.test(given))) return ['**/*.suite.ts'];
  if (paths.length > 0) {
    return [isFullRun(part, paths) ? '**/*.spec.ts' : '**/!(*.slow).spec.ts'];
  }
  const { groups, alone } = suitesOf[part];
  const suites = Object.keys(groups).filter((name) => groups[name].length > 0);
  return [...suites.map((name) => `test/suites/${name}.suite.ts`), ...alone].map((file) => `<rootDir>/${file}`);
}

/** Returns whether a suite, or a file that runs by itself, is of `npm test`. */
function isQuick(absolute) {
  const file = path.relative(root, absolute).split(path.sep).join('/');
  const [, suite] = /^test\/suites\/(.+)\.suite\.ts$/.exec(file) ?? [];
  return suite === undefined ? !isFull(file) : suite in quickSuites;
}

/** Returns the files of a suite, relative to the root. */
function filesOf(name) {
  return suitesOf.quick.groups[name];
}

module.exports = { files, filesOf, isFull, isFullRun, isQuick, matchesOf, root, suitesOf };
