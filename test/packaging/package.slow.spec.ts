// Installs the packed tarball in fresh projects, as users would: NestJS 10, 11 and 12, CommonJS and ES modules,
// ioredis 5 and 6, TypeScript 5 and 6, jest 29 and 30.
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { run } from './command.js';
import { Consumer, packTarball } from './consumer.js';
import { declaredNames, filesOf, importsOf, loadedBy, namesIn, type Surfaces } from './installed.js';
import { fileNameOf, modules as entryModules } from '../../tools/entry-points.cjs';
import { testRedisUrl } from '../support/shared-redis.js';

const root = join(__dirname, '../..');
const basics = ['goods.ts', 'entries.ts', 'checks.ts', 'neighbours.ts', 'types.ts'];

let folder: string;
let tarball: Promise<string>;
const consumers = new Map<string, Consumer>();
const consumer = (name: string): Consumer => consumers.get(name) as Consumer;

beforeAll(async () => {
  testRedisUrl();
  folder = await mkdtemp(join(tmpdir(), 'nestjs-redis-lock-'));
  tarball = packTarball(root, folder);
  const add = (name: string, ...sources: string[]) =>
    consumers.set(name, new Consumer(name, [...basics, ...sources], folder, tarball));
  // Installed one after the other, while those before are at work.
  add('nest12-esm', 'main.ts', 'compile.cjs');
  add('nest11-cjs', 'main.ts', 'compile.cjs', 'copies.mjs');
  add('nest11-jest', 'consumer.test.ts', 'behaviour.test.ts');
  add('nest10-jest', 'consumer.test.ts', 'behaviour.test.ts');
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
const FORMATS = ['esm', 'cjs'];
/** Of the unpacked tarball. */
const MOST_BYTES = 2_450_000;
const MOST_FILES = 130;

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
    const bin = (name: string) => join(root, 'node_modules', '.bin', name);
    const options = { cwd: root };
    await run('publint', process.execPath, [bin('publint'), 'run', await tarball, '--strict'], options);
    await run('attw', process.execPath, [bin('attw'), await tarball], options);
    expect(await tarball).toMatch(/\.tgz$/);
  });

  it('holds what is built, and no sources, source maps or tests', async () => {
    const installed = await consumer('nest12-esm').installed();
    const files = await filesOf(installed);
    const expected =
      /^(CHANGELOG\.md|LICENSE|README\.md|package\.json|dist\/cli\/[\w-]+\.js|dist\/(esm|cjs)\/.*(\.js|\.d\.ts|package\.json))$/;
    expect(files.map(({ path }) => path).filter((path) => !expected.test(path))).toEqual([]);
    expect(files.map(({ path }) => path)).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
  });

  it(`has ${MOST_BYTES} bytes and ${MOST_FILES} files at most`, async () => {
    const files = await filesOf(await consumer('nest12-esm').installed());
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    process.stdout.write(`  ${bytes} bytes in ${files.length} files\n`);
    expect(files.length).toBeLessThanOrEqual(MOST_FILES);
    expect(bytes).toBeLessThanOrEqual(MOST_BYTES);
    expect(bytes).toBeGreaterThan(MOST_BYTES / 10);
  });

  it('has the committed entry points', async () => {
    const installed = await consumer('nest12-esm').installed();
    const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as Record<string, object>;
    const paths = Object.keys(manifest.exports ?? {}).filter((path) => path !== './package.json');
    expect(paths.toSorted()).toEqual(Object.keys(ENTRIES));
    expect(Object.keys(await committed()).toSorted()).toEqual(Object.keys(ENTRIES));
  });

  it('declares the committed names to TypeScript', async () => {
    const dist = join(await consumer('nest12-esm').installed(), 'dist');
    const expected = Object.entries(await committed());
    const files = FORMATS.flatMap((format) => expected.map(([entry]) => join(dist, format, `${ENTRIES[entry]}.d.ts`)));
    const twice = FORMATS.flatMap(() => expected);
    const found = declaredNames(files).map((names, i) => [twice[i][0], names]);
    expect(found).toEqual(twice);
  });

  it('declares no Lua script', async () => {
    const installed = await consumer('nest12-esm').installed();
    const files = await filesOf(installed);
    const withScripts: string[] = [];
    for (const { path } of files) {
      if ((await readFile(join(installed, path), 'utf8')).includes('redis.call(')) withScripts.push(path);
    }
    expect(withScripts.filter((path) => path.endsWith('.js'))).not.toEqual([]);
    expect(withScripts.filter((path) => path.endsWith('.d.ts'))).toEqual([]);
  });

  it('imports only what it declares', async () => {
    const installed = await consumer('nest12-esm').installed();
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

describe.each(FORMATS)('an entry point of dist/%s loads only what it needs', (format) => {
  const loaded = async (entry: string) =>
    loadedBy(join(await consumer('nest12-esm').installed(), 'dist', format), `${ENTRIES[entry]}.js`);
  const STORES = { './quorum': 'QuorumStore', './redisson': 'RedissonStore', './timestamp': 'TimestampStore' };

  it.each(Object.entries(STORES))('%s has its store, which the root does not load', async (entry, store) => {
    expect((await loaded(entry)).code).toContain(`class ${store} `);
    expect((await loaded('.')).code).not.toContain(`class ${store} `);
    expect((await loaded(entry)).packages).toEqual([]);
  });

  it('the fence loads no package', async () => {
    expect((await loaded('./fence')).code).toContain('class RedisFence ');
    expect((await loaded('./fence')).packages).toEqual([]);
  });

  it('the adapter for transactions loads no package', async () => {
    expect((await loaded('./transactional')).code).toContain('function withLockScope(');
    expect((await loaded('./transactional')).packages).toEqual([]);
  });

  it('the adapter for node-redis loads no package, and the root does not have it', async () => {
    expect((await loaded('./node-redis')).code).toContain('function fromNodeRedis(');
    expect((await loaded('./node-redis')).packages).toEqual([]);
    expect((await loaded('.')).code).not.toContain('function fromNodeRedis(');
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

describe('the command line', () => {
  const COMMAND = 'node_modules/.bin/nestjs-redis-lock';

  it.each(['nest12-esm', 'nest11-cjs'])('runs in %s', async (name) => {
    const project = consumer(name);
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(await project.node('nestjs-redis-lock --version', [COMMAND, '--version'])).toBe(`${version}\n`);
    const prefix = `cli_${name}_`;
    const args = ['list', '--url', testRedisUrl(), '--prefix', prefix];
    const output = await project.node('nestjs-redis-lock list', [COMMAND, ...args]);
    expect(output).toBe(`No lock is held or awaited under --prefix "${prefix}" and --hash-tag family.\n`);
  });

  it('loads no Nest, and names ioredis if it is missing', async () => {
    const installed = await consumer('nest12-esm').installed();
    const modules = join(folder, 'alone', 'node_modules');
    await cp(installed, join(modules, 'nestjs-redis-lock'), { recursive: true });
    const bin = 'nestjs-redis-lock/dist/cli/bin.js';
    const options = { cwd: modules };
    expect(await run('--help', process.execPath, [bin, '--help'], options)).toContain('Exit codes:');
    const refused = await run('list', process.execPath, [bin, 'list'], { ...options, mustFail: true });
    expect(refused).toBe(
      'error: The package ioredis is missing. Install it together with nestjs-redis-lock: npm install ioredis\n',
    );
  });

  it('begins with the line that makes it executable', async () => {
    const installed = await consumer('nest12-esm').installed();
    const files = (await filesOf(installed)).filter(({ path }) => path.startsWith('dist/cli/'));
    process.stdout.write(`  ${files.reduce((sum, { size }) => sum + size, 0)} bytes of the command line\n`);
    expect(files.map(({ path }) => path)).toContain('dist/cli/bin.js');
    expect(await readFile(join(installed, 'dist/cli/bin.js'), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
  });
});

describe.each([
  ['nest12-esm', ['preserve', 'node16'], 'nodenext'],
  ['nest11-cjs', ['preserve'], 'node16'],
])('a project without jest: %s', (name, modules, emitted) => {
  it.each(modules)('compiles with --module %s, the declarations of the package checked', async (module) => {
    // Resolves modules as bundlers do.
    const resolution = module === 'preserve' ? 'bundler' : module;
    const args = ['src/compile.cjs', '--module', module, '--moduleResolution', resolution];
    expect(await consumer(name).node(`compile.cjs --module ${module}`, args)).toBe('');
  });

  it(`compiles with --module ${emitted}, libraries checked`, async () => {
    expect(await consumer(name).tsc('--module', emitted)).toBe('');
  });

  it('locks, has one copy of every class, and ends by itself', async () => {
    const output = await consumer(name).node('node out/main.js', ['out/main.js']);
    expect(output).toMatch(/^all checks passed$/m);
    const names = JSON.parse(/^exports (.*)$/m.exec(output)?.[1] ?? '{}') as Record<string, string[]>;
    const sorted = Object.entries(names).map(([entry, all]) => [entry, all.toSorted()]);
    expect(Object.fromEntries(sorted)).toEqual(await committedValues());
  });
});

describe.each(['nest11-jest', 'nest10-jest'])('a project with jest: %s', (name) => {
  it('compiles, libraries checked', async () => {
    expect(await consumer(name).tsc('--noEmit')).toBe('');
  });

  it('passes its tests, ends by itself, and leaves no open handle', async () => {
    await consumer(name).write('public-api.json', JSON.stringify(await committedValues()));
    const args = ['node_modules/jest/bin/jest.js', '--ci', '--runInBand', '--verbose', '--detectOpenHandles'];
    const output = await consumer(name).node('jest', args);
    expect(output).not.toContain('open handle');
    expect(output).toMatch(/^Test Suites: 2 passed, 2 total$/m);
    expect(output).toMatch(/^Tests: +(\d+) passed, \1 total$/m);
  });
});

describe('a key function that does not fit its method', () => {
  it('does not compile', async () => {
    const project = consumer('nest12-esm');
    await project.write(
      'src/misfit.ts',
      `import { Locked } from 'nestjs-redis-lock';
       export class Orders { @Locked((id: number) => \`order:\${id}\`) cancel(id: string): string { return id; } }`,
    );
    const args = ['node_modules/typescript/bin/tsc', '--noEmit', '--skipLibCheck'];
    const refusal = await project.refused('tsc', args);
    expect(refusal).toContain('the parameters of the key function are not those of the method');
    expect(refusal.match(/error TS/g)).toHaveLength(1);
  });
});

it('the ES module and the CommonJS module work side by side in one process', async () => {
  await cp(join(folder, 'nest11-cjs/src/copies.mjs'), join(folder, 'nest11-cjs/copies.mjs'));
  // Node would load the ES module for `require`, too, as of 20.19.
  const flag = '--experimental-require-module';
  const flags = process.allowedNodeEnvironmentFlags.has(flag) ? ['--no-experimental-require-module'] : [];
  const output = await consumer('nest11-cjs').node('node copies.mjs', [...flags, 'copies.mjs']);
  expect(output).toContain('both formats work');
});
