// Which spec file runs in which part and suite. A suite loads Nest and the package once for many files.
const { readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '../..');

/** The folders and files of each suite of `npm test`. A file belongs to the first suite that names it. */
const quickSuites = {
  locks: ['test/locks/'],
  unit: ['test/unit/', 'test/architecture.spec.ts', 'test/chaos/', 'test/model-checker/', 'test/simulation/', 'labs/'],
  nest: ['test/nest/'],
  redis: ['test/integration/', 'test/docs/', 'test/sample/'],
};

/** The suites of `npm run test:full`, whose files are in the list of files that wait for real time. */
const fullSuites = {
  'real-time': ['test/nest/', 'test/integration/token/'],
  'real-time-others': ['test/docs/', 'test/integration/', 'test/interop/', 'test/unit/'],
};

/** Marks a file that replaces modules. It runs alone, because a suite has loaded these modules already. */
const REPLACES_MODULES = /jest\.(?:doMock|mock|isolateModules)|library-copy/;

/** Its example reads `REDIS_URL` when it is loaded, and `test/docs/testing.spec.ts` loads the example without one. */
const READS_ENV = ['test/docs/readme.spec.ts'];

const files = ['test', 'labs']
  .flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true }).map(
      (file) => `${folder}/${file.split(path.sep).join('/')}`,
    ),
  )
  .filter((file) => file.endsWith('.spec.ts') && !file.includes('/node_modules/'))
  .toSorted((one, other) => (one < other ? -1 : 1));

const realTime = readFileSync(path.join(root, 'test/real-time.txt'), 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('test/'));

const isSlow = (file) => file.endsWith('.slow.spec.ts');
const isRealTime = (file) => file.startsWith('test/real-time/') || realTime.includes(file);
const runsAlone = (file) =>
  READS_ENV.includes(file) || REPLACES_MODULES.test(readFileSync(path.join(root, file), 'utf8'));

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

const suitesOf = {
  quick: grouped(
    files.filter((file) => !isSlow(file) && !isRealTime(file)),
    quickSuites,
  ),
  full: grouped(
    files.filter((file) => isSlow(file) || isRealTime(file)),
    fullSuites,
  ),
};

/**
 * Returns what a run of jest matches. Without a path that is a part: its suites, and the files that run alone. With a
 * path it is each file by itself, also of the other part. Slow files of a folder run with the part `full` only.
 *
 * @param {'quick' | 'full'} part
 * @param {readonly string[]} paths
 */
function matchesOf(part, paths) {
  if (paths.some((given) => /\bsuites?\b/.test(given))) return ['**/*.suite.ts'];
  if (paths.length > 0) {
    const withSlow = part === 'full' || paths.some((given) => given.includes('.slow'));
    return [withSlow ? '**/*.spec.ts' : '**/!(*.slow).spec.ts'];
  }
  const { groups, alone } = suitesOf[part];
  const suites = Object.keys(groups).filter((name) => groups[name].length > 0);
  return [...suites.map((name) => `test/suites/${name}.suite.ts`), ...alone].map((file) => `<rootDir>/${file}`);
}

/** Returns whether a suite, or a file that runs by itself, is of `npm test`. */
function isQuick(absolute) {
  const file = path.relative(root, absolute).split(path.sep).join('/');
  const [, suite] = /^test\/suites\/(.+)\.suite\.ts$/.exec(file) ?? [];
  return suite === undefined ? !isSlow(file) && !isRealTime(file) : suite in quickSuites;
}

/** Returns the files of a suite, relative to the root. */
function filesOf(name) {
  return suitesOf.quick.groups[name] ?? suitesOf.full.groups[name];
}

module.exports = { files, filesOf, isQuick, isRealTime, isSlow, matchesOf, realTime, root, suitesOf };
