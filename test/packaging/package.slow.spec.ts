// Installs the packed tarball in fresh projects, as users would: Nest 10 with the lowest versions of its peers, Nest 11
// and Nest 12, each as CommonJS and as ES modules.
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Alone } from './alone.js';
import { run } from './command.js';
import { Consumer, type Format, FORMATS, packTarball } from './consumer.js';
import { declaredNames, filesOf, importsOf, loadedBy, namesIn, type Surfaces } from './installed.js';
import { fileNameOf, modules as entryModules } from '../../tools/entry-points.cjs';
import { testRedisUrl } from '../support/shared-redis.js';

const root = join(__dirname, '../..');
const formats = Object.keys(FORMATS) as Format[];

let folder: string;
let tarball: Promise<string>;
const consumers = new Map<string, Consumer>();
const consumer = (name: string): Consumer => consumers.get(name) as Consumer;

beforeAll(async () => {
  testRedisUrl();
  folder = await mkdtemp(join(tmpdir(), 'nestjs-redis-lock-'));
  tarball = packTarball(root, folder);
  // Installed one after the other, while those before are at work.
  for (const name of ['nest12', 'nest11', 'nest10']) consumers.set(name, new Consumer(name, folder, tarball));
  await tarball;
});

afterAll(async () => {
  await Promise.allSettled([...consumers.values()].map((each) => each.installed()));
  await rm(folder, { recursive: true, force: true });
});

/** The entry points of the package, each with the name of its files in `dist/esm` and `dist/cjs`. */
const ENTRIES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(entryModules)
    .map(fileNameOf)
    .map((name) => [name === 'index' ? '.' : `./${name}`, name])
    .toSorted(([a], [b]) => (a < b ? -1 : 1)),
);
/** Options whose optional properties Nest, ioredis or a store declares. */
const FOREIGN = ['RedisLockModuleAsyncOptions', 'RedisClusterOptions', 'HandoffOptions'];
/** Of the unpacked tarball. */
const MOST_BYTES = 1_400_000;
const MOST_FILES = 80;

const committed = async (): Promise<Surfaces> => namesIn(await readFile(join(__dirname, 'public-api.txt'), 'utf8'));

/** Those of the names that have a value. */
async function committedValues(): Promise<Surfaces> {
  const surfaces = Object.entries(await committed());
  return Object.fromEntries(
    surfaces.map(([entry, names]) => [entry, names.filter((name) => !name.startsWith('type '))]),
  );
}

describe('the tarball', () => {
  it('is clean to publint and to are-the-types-wrong', async () => {
    const bin = (name: string) => join(root, 'test/node_modules/.bin', name);
    const options = { cwd: root };
    await run('publint', process.execPath, [bin('publint'), 'run', await tarball, '--strict'], options);
    await run('attw', process.execPath, [bin('attw'), await tarball], options);
    expect(await tarball).toMatch(/\.tgz$/);
  });

  it('holds what is built, and no sources, source maps or tests', async () => {
    const installed = await consumer('nest12').installed();
    const files = await filesOf(installed);
    const expected =
      /^(CHANGELOG\.md|LICENSE|README\.md|package\.json|dist\/(esm|cjs)\/.*(\.js|\.d\.ts|package\.json))$/;
    expect(files.map(({ path }) => path).filter((path) => !expected.test(path))).toEqual([]);
    expect(files.map(({ path }) => path)).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
  });

  it(`has ${MOST_BYTES} bytes and ${MOST_FILES} files at most`, async () => {
    const files = await filesOf(await consumer('nest12').installed());
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    process.stdout.write(`  ${bytes} bytes in ${files.length} files\n`);
    expect(files.length).toBeLessThanOrEqual(MOST_FILES);
    expect(bytes).toBeLessThanOrEqual(MOST_BYTES);
    expect(bytes).toBeGreaterThan(MOST_BYTES / 10);
  });

  it('is built again with the same bytes, by a dry run of npm publish that warns of nothing', async () => {
    const built = createHash('sha512').update(await readFile(await tarball));
    const args = ['publish', '--dry-run', '--json', '--loglevel=warn'];
    const output = await run('npm publish --dry-run', 'npm', args, { cwd: root });
    expect(output).toContain(`"integrity": "sha512-${built.digest('base64')}"`);
    const warnings = output.split('\n').filter((line) => line.startsWith('npm warn'));
    // A dry run needs no account.
    expect(warnings.filter((line) => !line.includes('requires you to be logged in'))).toEqual([]);
  });

  it('has the committed entry points', async () => {
    const installed = await consumer('nest12').installed();
    const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as Record<string, object>;
    const paths = Object.keys(manifest.exports ?? {}).filter((path) => path !== './package.json');
    expect(paths.toSorted()).toEqual(Object.keys(ENTRIES));
    expect(Object.keys(await committed()).toSorted()).toEqual(Object.keys(ENTRIES));
  });

  it('declares the committed names to TypeScript', async () => {
    const dist = join(await consumer('nest12').installed(), 'dist');
    const expected = Object.entries(await committed());
    const files = formats.flatMap((format) => expected.map(([entry]) => join(dist, format, `${ENTRIES[entry]}.d.ts`)));
    const twice = formats.flatMap(() => expected);
    const found = declaredNames(files).map((names, i) => [twice[i][0], names]);
    expect(found).toEqual(twice);
  });

  it('declares no Lua script', async () => {
    const installed = await consumer('nest12').installed();
    const files = await filesOf(installed);
    const withScripts: string[] = [];
    for (const { path } of files) {
      if ((await readFile(join(installed, path), 'utf8')).includes('redis.call(')) withScripts.push(path);
    }
    expect(withScripts.filter((path) => path.endsWith('.js'))).not.toEqual([]);
    expect(withScripts.filter((path) => path.endsWith('.d.ts'))).toEqual([]);
  });

  it('imports only what it declares', async () => {
    const installed = await consumer('nest12').installed();
    const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as Record<string, object>;
    // The types of node-redis clients name only their methods. The peer only names the versions.
    const { redis: _, ...peers } = manifest.peerDependencies as Record<string, string>;
    const declared = Object.keys({ ...manifest.dependencies, ...peers }).toSorted();
    const files = (await filesOf(installed)).map(({ path }) => path).filter((path) => /\.(js|d\.ts)$/.test(path));
    const imported = await Promise.all(
      files.map(async (path) => importsOf(await readFile(join(installed, path), 'utf8'))),
    );
    expect([...new Set(imported.flatMap(({ packages }) => packages))].toSorted()).toEqual(declared);
  });
});

describe.each(formats)('an entry point of dist/%s loads only what it needs', (format) => {
  const loaded = async (entry: string) =>
    loadedBy(join(await consumer('nest12').installed(), 'dist', format), `${ENTRIES[entry]}.js`);

  it.each([
    ['./quorum', 'class QuorumStore '],
    ['./redisson', 'class RedissonStore '],
    ['./timestamp', 'class TimestampStore '],
    ['./node-redis', 'function fromNodeRedis('],
  ])('%s loads no package, and the root does not have it', async (entry, code) => {
    expect((await loaded(entry)).code).toContain(code);
    expect((await loaded(entry)).packages).toEqual([]);
    expect((await loaded('.')).code).not.toContain(code);
  });

  it.each([
    ['./fence', 'class RedisFence '],
    ['./transactional', 'function withLockScope('],
  ])('%s loads no package', async (entry, code) => {
    expect((await loaded(entry)).code).toContain(code);
    expect((await loaded(entry)).packages).toEqual([]);
  });

  it('locks without Nest load no package but the parser, and ioredis to make a client', async () => {
    expect((await loaded('./standalone')).code).toContain('function createLocks(');
    expect((await loaded('./standalone')).packages.toSorted()).toEqual(['acorn', 'ioredis']);
    expect((await loaded('.')).code).not.toContain('function createLocks(');
  });

  it('the health indicator loads Terminus, which the root does not', async () => {
    expect((await loaded('./terminus')).packages).toContain('@nestjs/terminus');
    expect((await loaded('.')).packages).not.toContain('@nestjs/terminus');
  });

  it.each([
    ['./opentelemetry', 'class RedisLockInstrumentation ', '@opentelemetry/api'],
    ['./prometheus', 'function collectLockMetrics(', 'prom-client'],
  ])('%s loads its package only, and the root does not load it', async (entry, code, name) => {
    expect((await loaded(entry)).code).toContain(code);
    expect((await loaded(entry)).packages).toEqual([name]);
    expect((await loaded('.')).code).not.toContain(code);
    expect((await loaded('.')).packages).not.toContain(name);
  });

  it.each(['.', './board', './testing'])('%s loads reflect-metadata before Nest', async (entry) => {
    expect((await loaded(entry)).packages[0]).toBe('reflect-metadata');
  });
});

describe('an entry point beside its own peers only', () => {
  const alone = async (name: string, packages: readonly string[]): Promise<Alone> =>
    Alone.create(join(folder, `alone-${name}`), await consumer('nest12').installed(), packages);
  const NEST = ['@nestjs/common', '@nestjs/core', 'reflect-metadata', 'rxjs'];
  /** The peers of each entry point, without ioredis, which a node-redis client replaces. */
  const PEERS: Readonly<Record<string, readonly string[]>> = {
    '.': NEST,
    './board': NEST,
    './events': [],
    './fence': [],
    './node-redis': [],
    './opentelemetry': ['@opentelemetry/api'],
    './prometheus': ['prom-client'],
    './quorum': [],
    './redisson': [],
    './standalone': [],
    './terminus': [...NEST, '@nestjs/terminus'],
    './testing': NEST,
    './timestamp': [],
    './transactional': ['@nestjs-cls/transactional'],
  };

  it('is checked for every entry point', () => {
    expect(Object.keys(PEERS)).toEqual(Object.keys(ENTRIES));
  });

  it.each(Object.entries(PEERS))('has declarations that compile: %s', async (entry, peers) => {
    const project = await alone(`types-${ENTRIES[entry]}`, [...peers, '@types']);
    const specifier = join('nestjs-redis-lock', entry);
    expect(await project.errorsOf(`import * as all from '${specifier}';\nexport const names = all;\n`)).toEqual([]);
  });

  it('has declarations that know the options of ioredis if it is installed', async () => {
    const project = await alone('ioredis-types', ['ioredis', '@types']);
    const source = `
      import { createLocks } from 'nestjs-redis-lock/standalone';
      import { Redis } from 'ioredis';
      createLocks({ redis: new Redis() });
      createLocks({ redis: { host: 'localhost', port: 6379 } });
      // @ts-expect-error: a port is a number
      createLocks({ redis: { port: '6379' } });
    `;
    expect(await project.errorsOf(source)).toEqual([]);
  });

  const START = {
    mjs: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);\n",
    cjs: '',
  };
  const IMPORT = {
    mjs: (names: string, specifier: string) => `import { ${names} } from '${specifier}';\n`,
    cjs: (names: string, specifier: string) => `const { ${names} } = require('${specifier}');\n`,
  };
  const CHECK = `
    for (const name of ['@nestjs/common', '@nestjs/core', 'rxjs', 'reflect-metadata']) {
      let code;
      try { require.resolve(name); } catch (error) { code = error.code; }
      if (code !== 'MODULE_NOT_FOUND') throw new Error(name + ' is there');
    }
    if (typeof Reflect.defineMetadata === 'function') throw new Error('reflect-metadata is loaded');
  `;

  it.each(['mjs', 'cjs'] as const)('locks on Redis, without Nest: %s', async (format) => {
    const project = await alone(`ioredis-${format}`, ['ioredis']);
    const program = `${START[format]}${IMPORT[format]('createLocks', 'nestjs-redis-lock/standalone')}${CHECK}
      const locks = createLocks({ redis: '${testRedisUrl()}', prefix: 'alone_${format}_' });
      const sell = locks.wrap('goods:<id>', async (id) => 'goods ' + id + ' are sold');
      sell(300).then(console.log).then(() => locks.close());
    `;
    expect(await project.node(format, program)).toMatch(/^Locks are in .*\ngoods 300 are sold\n$/);
  });

  it.each(['mjs', 'cjs'] as const)('locks by node-redis, and names ioredis if it is missing: %s', async (format) => {
    const project = await alone(`redis-${format}`, ['redis']);
    const program = `${START[format]}${IMPORT[format]('createLocks, memory', 'nestjs-redis-lock/standalone')}
      ${IMPORT[format]('fromNodeRedis', 'nestjs-redis-lock/node-redis')}${IMPORT[format]('createClient', 'redis')}${CHECK}
      const logger = { ...console, log: () => undefined };
      try { createLocks(); } catch (error) { console.log(error.code, error.message); }
      const run = async (options) => {
        const locks = createLocks({ ...options, logger });
        console.log(await locks.using('goods:300', () => 'sold'));
        await locks.close();
      };
      const client = createClient({ url: '${testRedisUrl()}' });
      const redis = fromNodeRedis(client);
      run({ store: memory() })
        .then(() => client.connect())
        .then(() => run({ redis, prefix: 'alone_${format}_' }))
        .then(() => client.close());
    `;
    const advice = 'Run `npm install ioredis`, or pass a node-redis client with fromNodeRedis().';
    expect(await project.node(format, program)).toBe(
      `LOCK_CONFIG The package ioredis is missing. ${advice}\nsold\nsold\n`,
    );
  });
});

describe('the command line', () => {
  const COMMAND = '../node_modules/.bin/nestjs-redis-lock';

  it('runs', async () => {
    const project = consumer('nest11');
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(await project.node('cjs', COMMAND, '--version')).toBe(`${version}\n`);
    const output = await project.node('cjs', COMMAND, 'list', '--url', testRedisUrl(), '--prefix', 'cli_');
    expect(output).toContain('No lock is held or awaited');
  });

  it('loads no Nest, and names ioredis if it is missing or too old', async () => {
    const installed = await consumer('nest12').installed();
    const modules = join(folder, 'alone', 'node_modules');
    await cp(installed, join(modules, 'nestjs-redis-lock'), { recursive: true });
    const bin = 'nestjs-redis-lock/dist/esm/cli.js';
    const options = { cwd: modules };
    expect(await run('--help', process.execPath, [bin, '--help'], options)).toContain('Exit codes:');
    const refused = await run('list', process.execPath, [bin, 'list'], { ...options, mustFail: true });
    expect(refused).toBe(
      'error: The package ioredis is missing. Install it together with nestjs-redis-lock: npm install ioredis\n',
    );
    // As ioredis 4, whose package is the class.
    await mkdir(join(modules, 'ioredis'));
    await writeFile(join(modules, 'ioredis/index.js'), 'module.exports = class Redis {};');
    const tooOld = await run('list', process.execPath, [bin, 'list'], { ...options, mustFail: true });
    expect(tooOld).toBe('error: The package ioredis is too old: version 5.3 or later is needed.\n');
  });

  it('begins with the line that makes it executable', async () => {
    const installed = await consumer('nest12').installed();
    expect(await readFile(join(installed, 'dist/esm/cli.js'), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
  });
});

describe.each(['nest10', 'nest11', 'nest12'])('an application on %s', (name) => {
  it.each(formats)('compiles, locks, has one copy of every class, and ends by itself: %s', async (format) => {
    expect(await consumer(name).compile(format)).toBe('');
    const output = await consumer(name).node(format, 'out/main.js');
    expect(output).toMatch(/^all checks passed$/m);
    const names = JSON.parse(/^exports (.*)$/m.exec(output)?.[1] ?? '{}') as Record<string, string[]>;
    const sorted = Object.entries(names).map(([entry, all]) => [entry, all.toSorted()]);
    expect(Object.fromEntries(sorted)).toEqual(await committedValues());
  });
});

describe.each(['nest10', 'nest11', 'nest12'])('other packages on %s', (name) => {
  it('get a status from gRPC handlers, and no job of BullMQ fails because the application stops', async () => {
    expect(await consumer(name).compile('cjs')).toBe('');
    expect(await consumer(name).node('cjs', 'out/neighbours.js')).toMatch(/^all neighbours are served$/m);
  });
});

describe('TypeScript', () => {
  it.each<[name: string, format: Format, options: string]>([
    ['nest11', 'cjs', '--module commonjs --moduleResolution node10'],
    ['nest11', 'esm', '--module node16'],
    ['nest12', 'esm', '--module preserve --moduleResolution bundler'],
    ['nest12', 'esm', '--exactOptionalPropertyTypes'],
  ])('compiles %s, %s, with %s', async (name, format, options) => {
    expect(await consumer(name).compile(format, '--noEmit', ...options.split(' '))).toBe('');
  });

  it('allows undefined for the options of all entry points', async () => {
    const source = await readFile(join(__dirname, 'shared/options.ts'), 'utf8');
    const names = Object.values(await committed()).flatMap((all) =>
      all.flatMap((each) => /^type (\w+(?:Options|Extras))$/.exec(each)?.[1] ?? []),
    );
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((each) => !FOREIGN.includes(each) && !source.includes(`: ${each}`))).toEqual([]);
  });
});

it('the ES module and the CommonJS module work side by side in one process', async () => {
  // Node would load the ES module for `require`, too, as of 20.19.
  const flag = '--experimental-require-module';
  const flags = process.allowedNodeEnvironmentFlags.has(flag) ? ['--no-experimental-require-module'] : [];
  expect(await consumer('nest11').node('esm', ...flags, 'formats.mjs')).toContain('both formats work');
});
