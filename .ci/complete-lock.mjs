// Completes package-lock.json with the optional packages of other platforms, which a registry mirror may not hold. npm
// then leaves them out of the lock file without a word, and `npm ci` of npm 11 refuses that file on every machine.
//   node .ci/complete-lock.mjs             after an `npm install` behind such a mirror: adds the packages, and their
//                                          hashes if the registry has them
//   node .ci/complete-lock.mjs --check     fails if an entry has no hash, or names where it was downloaded from
//   node .ci/complete-lock.mjs --known     the same, but for the entries of .ci/without-hash.json
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const FILES = ['package-lock.json', 'test/bench/package-lock.json'];
const KNOWN = '.ci/without-hash.json';
const PLATFORM =
  /(?:^|[/-])(darwin|linux|win32|android|freebsd|netbsd|openbsd|openharmony|sunos|aix)-(arm64|x64|arm|ia32|loong64|ppc64|riscv64|s390x)(?:-(\w+))?$/;
/** SHA-1 can be forged. */
const HASH = /^sha(?:512|384|256)-[\w+/]+={0,2}$/;

const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
const write = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
const nameOf = (path) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

/** Returns the entries that npm installs: neither the package itself, nor links, nor what is part of another tarball. */
function installed(lock) {
  return Object.entries(lock.packages).filter(([path, entry]) => path !== '' && !entry.link && !entry.inBundle);
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
  lock.packages = Object.fromEntries(Object.entries(lock.packages).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** Returns what the registry says of a version, or undefined. */
function hashOf(name, version) {
  try {
    const options = { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] };
    const hash = execFileSync('npm', ['view', `${name}@${version}`, 'dist.integrity'], options).trim();
    return HASH.test(hash) ? hash : undefined;
  } catch {
    return undefined;
  }
}

/** Adds the hashes that are missing. Two packages without one end it, because the registry then is a mirror. */
function addHashes(lock) {
  let refused = 0;
  for (const [path, entry] of installed(lock)) {
    if (entry.integrity !== undefined || refused >= 2) continue;
    const hash = hashOf(nameOf(path), entry.version);
    if (hash === undefined) refused += 1;
    else
      lock.packages[path] = Object.fromEntries([
        ['version', entry.version],
        ['integrity', hash],
        ...Object.entries(entry),
      ]);
  }
}

function complete() {
  const [file] = FILES;
  const lock = read(file);
  addPackages(lock);
  addHashes(lock);
  write(file, lock);
  const without = withoutHash(file, lock);
  write(KNOWN, without);
  console.log(`${without.length} entries have no hash`);
}

function withoutHash(file, lock) {
  return installed(lock)
    .filter(([, { integrity = '' }]) => !integrity.split(' ').some((hash) => HASH.test(hash)))
    .map(([path, { version }]) => `${nameOf(path)}@${version}`);
}

/** Returns what is wrong with a lock file. */
function problemsIn(file, known) {
  const lock = read(file);
  const missing = withoutHash(file, lock).filter((one) => !known.has(one));
  const downloaded = installed(lock).filter(([, { resolved }]) => resolved !== undefined);
  return [
    ...missing.map((one) => `${file}: ${one} has no hash. Run node .ci/complete-lock.mjs.`),
    ...downloaded.map(([path]) => `${file}: ${nameOf(path)} names where it was downloaded from. Remove "resolved".`),
  ];
}

function check(known) {
  const problems = FILES.flatMap((file) => problemsIn(file, known));
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

const COMMANDS = { '': complete, '--check': () => check(new Set()), '--known': () => check(new Set(read(KNOWN))) };
const [option = ''] = process.argv.slice(2);
if (!(option in COMMANDS)) throw new Error(`${option} is unknown. Allowed are: --check, --known, or nothing.`);
COMMANDS[option]();
