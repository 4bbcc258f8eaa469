// The compiled files under measure, and the copy of ioredis that they load. Every entry gets that copy.
// `npm run build` leaves them in .cache/build. The bundle in dist/ has the same code, but no module for each file.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
/** The build under measure. */
export const DIST = resolve(process.env.NRL_DIST ?? join(ROOT, '.cache/build'));

/** Loads a module of the build, `index.js` for example. */
export const load = (file) => import(pathToFileURL(join(DIST, file)).href);

const requireFromBuild = createRequire(join(DIST, 'index.js'));
const requireHere = createRequire(import.meta.url);

export const { Cluster, Redis } = requireFromBuild('ioredis');
/** Nest as the build loads it. murlock brings another copy. */
export const nest = { ...requireFromBuild('@nestjs/common'), ...requireFromBuild('@nestjs/core') };
export const { LockRuntime } = await load('lock-runtime.js');

export const { scripts } = await load('stores/token/scripts.js');

// Warnings of the library are shown, but at most three.
let warnings = 0;
const warn = (message) => {
  warnings += 1;
  if (warnings <= 3) process.stderr.write(`   warning: ${message}${warnings === 3 ? ' (no more are shown)' : ''}\n`);
};
export const logger = { log: () => undefined, warn, error: warn };
nest.Logger.overrideLogger(logger);

const PEERS = [
  'redlock',
  '@sesamecare-oss/redlock',
  'redis-semaphore',
  'redlock-universal',
  '@verrou/core',
  'ioredfour',
  'murlock',
];

/**
 * Returns the versions of the measured packages. Throws if the build and its peers use different versions of ioredis.
 */
export function versions() {
  const ours = requireFromBuild('ioredis/package.json').version;
  const theirs = installedVersion('ioredis');
  if (ours !== theirs)
    throw new Error(`ioredis ${ours} is ours, ${theirs} the peers': labs/bench/package.json is behind.`);
  const { version } = requireFromBuild('redis/package.json');
  return {
    ioredis: ours,
    'node-redis': version,
    ...Object.fromEntries(PEERS.map((name) => [name, installedVersion(name)])),
  };
}

function installedVersion(name) {
  const folders = requireHere.resolve.paths(name).map((folder) => join(folder, name, 'package.json'));
  for (const file of folders) {
    try {
      return JSON.parse(readFileSync(file, 'utf8')).version.replace(/^v/, '');
    } catch {
      // The package is not in this folder.
    }
  }
  throw new Error(`${name} is not installed: npm ci --prefix labs/bench`);
}

/** Returns a connected client. */
export async function connect(url, options = {}) {
  const client = new Redis(url, { lazyConnect: true, ...options });
  await client.connect();
  return client;
}
