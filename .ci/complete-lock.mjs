// Completes package-lock.json with the optional packages of other platforms, which a registry mirror may not hold. npm
// then leaves them out of the lock file without a word, and `npm ci` of npm 11 refuses that file on every machine.
//   node .ci/complete-lock.mjs            after an `npm install` behind such a mirror: adds them to package-lock.json of
//                                         this folder, with their hashes if the registry has them
//   node .ci/complete-lock.mjs --check    counts the entries without a hash. Fails if one of them is installed here
//   node .ci/complete-lock.mjs --strict   fails if any entry has no hash
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const PLATFORM =
  /(?:^|[/-])(darwin|linux|win32|android|freebsd|netbsd|openbsd|openharmony|sunos|aix)-(arm64|x64|arm|ia32|loong64|ppc64|riscv64|s390x)(?:-(\w+))?$/;
/** SHA-1 can be forged. */
const HASH = /(?:^| )sha(?:512|384|256)-/;

const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
const nameOf = (path) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

/** Returns the entries that npm downloads and that have no hash. */
function withoutHash(lock) {
  return Object.entries(lock.packages).filter(
    ([path, { link, inBundle, integrity = '' }]) => path !== '' && !link && !inBundle && !HASH.test(integrity),
  );
}

function addPackages(lock) {
  for (const parent of Object.values(lock.packages)) {
    for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
      const [, os, cpu, abi = ''] = PLATFORM.exec(name) ?? [];
      const path = `node_modules/${name}`;
      if (os === undefined || path in lock.packages) continue;
      const libc = os === 'linux' ? { libc: [abi.startsWith('musl') ? 'musl' : 'glibc'] } : {};
      lock.packages[path] = { version, cpu: [cpu], dev: true, ...libc, optional: true, os: [os] };
      console.log(`added ${name}@${version}`);
    }
  }
  lock.packages = Object.fromEntries(Object.entries(lock.packages).toSorted(([a], [b]) => a.localeCompare(b, 'en')));
}

function hashOf(name) {
  const options = { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] };
  return execFileSync('npm', ['view', name, 'dist.integrity'], options).trim();
}

/** Adds the hashes. The first package that the registry does not have ends it, because the registry then is a mirror. */
function addHashes(lock) {
  try {
    for (const [path, { version, ...others }] of withoutHash(lock)) {
      const integrity = hashOf(`${nameOf(path)}@${version}`);
      lock.packages[path] = { version, ...others, integrity };
    }
  } catch (error) {
    console.log(`The registry does not serve all packages. ${error.message}`);
  }
}

function complete() {
  const lock = read('package-lock.json');
  addPackages(lock);
  addHashes(lock);
  writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`);
  console.log(`${withoutHash(lock).length} entries have no hash`);
}

/** Returns the lock files of a folder and of those below it. */
function lockFiles(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.name === 'package-lock.json') return [path];
    return entry.isDirectory() && !/^(?:\.|node_modules$)/.test(entry.name) ? lockFiles(path) : [];
  });
}

function check(strict) {
  for (const file of lockFiles('.')) {
    const lock = read(file);
    const missing = withoutHash(lock);
    const wrong = missing.filter(([path]) => strict || existsSync(join(dirname(file), path)));
    for (const [path, { version }] of wrong) console.error(`${file}: ${nameOf(path)}@${version} has no hash`);
    const address = Object.keys(lock.packages).filter((path) => lock.packages[path].resolved?.startsWith('http'));
    for (const path of address) console.error(`${file}: ${nameOf(path)} names the registry that it came from`);
    if (wrong.length + address.length > 0) process.exitCode = 1;
    console.log(`${file}: ${missing.length} of ${Object.keys(lock.packages).length} entries have no hash`);
  }
}

const COMMANDS = { undefined: complete, '--check': () => check(false), '--strict': () => check(true) };
const [, , option] = process.argv;
if (!(option in COMMANDS)) throw new Error(`${option} is unknown. Allowed are: --check, --strict, or nothing.`);
COMMANDS[option]();
