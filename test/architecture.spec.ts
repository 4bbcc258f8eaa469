import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { modules } from '../tools/entry-points.cjs';
import { SourceFile, type Import } from './support/source-file.js';

const root = resolve(__dirname, '..');
const MAX_COLUMNS = 120;
const CLOCK = 'lib/clock/clock.ts';
const AMBIENT =
  /^(?:Date\.now|new Date\(\)|performance\.now|Math\.random|AbortSignal\.timeout|set(?:Timeout|Interval))$/;

/** What stores and the code that talks to Redis may import beside each other. */
const BELOW_STORES = ['common/', 'clock/', 'contract/', 'keys/'];
/** The modules of the package's entry points. */
const ENTRIES = Object.values(modules);

const files = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => new SourceFile(root, join('lib', name)));

/** The folders of lib/stores/. */
const STORES = [...new Set(files.flatMap(({ path }) => /^lib\/stores\/([^/]+)\//.exec(path)?.[1] ?? []))];

function inFolder(folder: string): readonly SourceFile[] {
  const found = files.filter(({ path }) => path.startsWith(folder));
  if (found.length === 0) throw new Error(`${folder} has no files`);
  return found;
}

function offences(of: readonly SourceFile[], isAllowed: (imported: Import, path: string) => boolean): string[] {
  return of.flatMap(({ path, imports }) =>
    imports.filter((imported) => !isAllowed(imported, path)).map(({ from }) => `${path} imports ${from}`),
  );
}

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

/** The folders of entry points that nothing else imports. */
const ENTRY_FOLDERS =
  'board cli fence node-redis opentelemetry prometheus standalone terminus testing transactional'.split(' ');

/** The files of lib/stores/ that all stores share. */
const SHARED_BY_STORES = /^lib\/stores\/(?!index)[^/]+$/;
const METRICS = (
  'common/check-options.ts common/errors.ts common/version.ts events/call.ts events/diagnostics.ts ' +
  'events/instance-states.ts events/lock-collector.ts events/tracing.ts node:diagnostics_channel'
).split(' ');

/**
 * What each folder may import beside itself: files and folders of the library, and packages. `types`: only their types.
 */
const ROOMS: readonly (readonly [folder: string, allowed: readonly string[], types?: readonly string[]])[] = [
  ['common', ['node:']],
  ['clock', ['node:', 'common/']],
  // acorn is the parser that finds the names of parameters.
  ['keys', ['node:', 'common/', 'acorn']],
  ['contract', ['node:', 'common/']],
  ['events', ['node:', 'common/', 'clock/', 'contract/']],
  ['engine', ['node:', 'clock/', 'common/', 'contract/', 'events/', 'keys/']],
  ['redis', ['node:', ...BELOW_STORES], ['ioredis']],
  ...STORES.map((name) => [`stores/${name}`, ['node:', ...BELOW_STORES, 'redis/'], ['ioredis']] as const),
  [
    'fence',
    [
      'common/errors.ts',
      'common/check-options.ts',
      'common/format-value.ts',
      'keys/resource-key.ts',
      'redis/redis-script.ts',
    ],
    ['redis/redis-client.ts', 'redis/client-port.ts'],
  ],
  ['node-redis', ['node:events', 'redis/', ...BELOW_STORES]],
  [
    'transactional',
    ['common/errors.ts', 'common/check-options.ts', 'engine/lock-scope.ts'],
    ['@nestjs-cls/transactional'],
  ],
  [
    'terminus',
    (
      'common/check-options.ts common/errors.ts contract/store-ping.ts clock/clock.ts lock.service.ts ' +
      'nest/service-token.ts options/redis-lock.options.ts @nestjs/common @nestjs/core @nestjs/terminus'
    ).split(' '),
  ],
  ['opentelemetry', [...METRICS, '@opentelemetry/api']],
  ['prometheus', [...METRICS, 'prom-client']],
  ['cli', ['node:', ...BELOW_STORES, 'redis/', 'stores/token/', 'lock-info.ts', 'engine/lease.ts'], ['ioredis']],
  [
    'board',
    (
      'common/check-options.ts common/errors.ts common/format-value.ts clock/clock.ts lock-info.ts ' +
      'nest/service-token.ts lock.service.ts options/redis-lock.options.ts node: @nestjs/common reflect-metadata'
    ).split(' '),
  ],
];

/** Whether an import is one of these: a package, a file of the library, or one in a folder, which ends with a slash. */
const isOneOf = (from: string, allowed: readonly string[]): boolean =>
  allowed.some((name) => {
    const path = /^(?:node:|@|[\w-]+$)/.test(name) ? name : `lib/${name}`;
    return /[:/]$/.test(path) ? from.startsWith(path) : from === path;
  });

/** Builds the graph of imports between nodes. `nodeOf` returns the node of a file. Without types if `runs`. */
function importGraph(nodeOf: (path: string) => string, runs = false): Graph {
  const graph = new Map(files.map(({ path }) => [nodeOf(path), new Set<string>()]));
  for (const { path, imports } of files) {
    for (const { from, typeOnly } of imports) {
      if (runs && typeOnly) continue;
      if (from.startsWith('lib/') && nodeOf(from) !== nodeOf(path)) graph.get(nodeOf(path))?.add(nodeOf(from));
    }
  }
  return graph;
}

function cyclesIn(graph: Graph): string[] {
  const done = new Set<string>();
  const found: string[] = [];
  const walk = (node: string, trail: readonly string[]): void => {
    if (trail.includes(node)) found.push([...trail.slice(trail.indexOf(node)), node].join(' > '));
    else if (!done.has(node)) {
      for (const next of graph.get(node) ?? []) walk(next, [...trail, node]);
      done.add(node);
    }
  };
  for (const node of graph.keys()) walk(node, []);
  return found;
}

/**
 * Returns a file's folder of the first `levels` below lib/. A file that lies above that level stands for itself, but
 * for the classes of the engine, which know each other's types.
 */
const folderOf = (levels: number) => (path: string) =>
  path.startsWith('lib/engine/')
    ? 'lib/engine'
    : path
        .split('/')
        .slice(0, levels + 1)
        .join('/');

describe('the floors', () => {
  it('has the folders of the first level', () => {
    const folders = new Set(files.map(({ path }) => folderOf(1)(path)).filter((node) => !node.endsWith('.ts')));
    const rooms = 'clock common contract engine events keys nest options redis stores'.split(' ');
    expect([...folders].toSorted()).toEqual([...rooms, ...ENTRY_FOLDERS].map((name) => `lib/${name}`).toSorted());
  });

  it.each(ROOMS)('%s knows itself and %j', (folder, allowed, types = []) => {
    const isStore = folder.startsWith('stores/');
    const isAllowed = ({ from, typeOnly }: Import) =>
      isOneOf(from, [`${folder}/`, ...allowed]) ||
      (typeOnly && isOneOf(from, types)) ||
      (isStore && SHARED_BY_STORES.test(from));
    expect(offences(inFolder(`lib/${folder}/`), isAllowed)).toEqual([]);
  });

  it('only one file imports the adapter of ioredis, and all others use the port', () => {
    const isAllowed = ({ from }: Import, path: string) =>
      !from.startsWith('lib/redis/ioredis/') ||
      path === 'lib/redis/open-redis.ts' ||
      path.startsWith('lib/redis/ioredis/');
    expect(offences(files, isAllowed)).toEqual([]);
  });

  it('one file loads ioredis, and all others have its types only', () => {
    expect(offences(files, ({ from, typeOnly }) => from !== 'ioredis' || typeOnly)).toEqual([]);
    const loads = ({ path }: SourceFile) => /\('ioredis'\) as /.test(readFileSync(join(root, path), 'utf8'));
    expect(files.filter(loads).map(({ path }) => path)).toEqual(['lib/redis/load-ioredis.ts']);
  });

  it('the entry point without Nest knows no Nest, and neither does anything that it loads', () => {
    const loaded = new Set<string>();
    const packages = new Set<string>();
    const walk = (path: string): void => {
      if (loaded.has(path)) return;
      loaded.add(path);
      for (const { from } of inFolder(path)[0]?.imports.filter(({ typeOnly }) => !typeOnly) ?? []) {
        if (from.startsWith('lib/')) walk(from);
        else if (!from.startsWith('node:')) packages.add(from);
      }
    };
    walk('lib/standalone/index.ts');
    expect([...packages]).toEqual([]);
    expect([...loaded].filter((path) => path.startsWith('lib/nest/'))).toEqual([]);
    expect(loaded).toContain('lib/lock-runtime.ts');
  });

  it('what all stores share knows no store', () => {
    const shared = inFolder('lib/stores/').filter(({ path }) => SHARED_BY_STORES.test(path));
    const isAllowed = ({ from }: Import) =>
      !STORES.some((name) => from.startsWith(`lib/stores/${name}/`)) &&
      /^(?:node:|lib\/(?:clock|common|contract|keys|redis|stores)\/)/.test(from);
    expect(shared).not.toHaveLength(0);
    expect(offences(shared, isAllowed)).toEqual([]);
  });

  it('generated scripts import nothing', () => {
    const generated = files.filter((file) => file.generated);
    expect(generated.map(({ path }) => path)).toContain('lib/stores/token/scripts.ts');
    expect(offences(generated, () => false)).toEqual([]);
  });

  it.each(['options', 'nest'])("%s knows types of the stores' contract at most", (name) => {
    const isAllowed = ({ from, typeOnly }: Import) =>
      !/^lib\/(?:stores|redis|fence|testing)\//.test(from) ||
      (typeOnly && isOneOf(from, ['stores/store-context.ts', 'redis/redis-client.ts']));
    expect(offences(inFolder(`lib/${name}/`), isAllowed)).toEqual([]);
  });

  it('no file imports an entry point, or the folder of another one', () => {
    const isAllowed = ({ from }: Import, path: string) =>
      !ENTRIES.includes(from) &&
      ENTRY_FOLDERS.map((name) => `lib/${name}/`).every(
        (folder) => !from.startsWith(folder) || path.startsWith(folder),
      );
    expect(ENTRIES.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(offences(files, isAllowed)).toEqual([]);
  });

  it('only the clock reads time, makes timers and draws random numbers', () => {
    const ambient = files
      .filter(({ path }) => path !== CLOCK)
      .flatMap(({ path, names, imports }) => [
        ...[...names].filter((name) => AMBIENT.test(name)).map((name) => `${path} uses ${name}`),
        ...imports
          .filter(({ from }) => /^(?:node:)?(?:timers|perf_hooks)/.test(from))
          .map(({ from }) => `${path} imports ${from}`),
      ]);
    expect(ambient).toEqual([]);
  });
});

describe('the laboratories', () => {
  const sources = (folder: string): readonly string[] =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.[cm]?[jt]s$/.test(name) && !name.includes('node_modules'))
      .map((name) => join(folder, name));
  /** Relative paths lead to what is imported, required or forked. */
  const usersOf = (folder: string, among: readonly string[]): readonly string[] => {
    const path = new RegExp(`['"\`](?:\\.\\./)+${folder}/`);
    return among.filter((file) => path.test(readFileSync(join(root, file), 'utf8')));
  };

  it('use the test support, and neither the library nor a test uses them', () => {
    expect(usersOf('test/support', sources('labs')).length).toBeGreaterThan(0);
    expect(usersOf('labs', ['lib', 'test', 'sample', 'tools'].flatMap(sources))).toEqual([]);
  });

  it('have a README each', () => {
    const folders = readdirSync(join(root, 'labs'));
    expect(folders.filter((name) => !existsSync(join(root, 'labs', name, 'README.md')))).toEqual([]);
  });
});

describe('imports make no cycle', () => {
  it('between files, except for types', () => {
    expect(cyclesIn(importGraph((path) => path, true))).toEqual([]);
  });

  it.each([1, 2])('between folders of level %i', (levels) => {
    expect(cyclesIn(importGraph(folderOf(levels)))).toEqual([]);
  });

  it('is a check that finds one', () => {
    const graph = new Map([
      ['a', new Set(['b'])],
      ['b', new Set(['c'])],
      ['c', new Set(['b'])],
    ]);
    expect(cyclesIn(graph)).toEqual(['b > c > b']);
  });
});

it(`no line has more than ${MAX_COLUMNS} columns`, () => {
  const long = files.filter(({ generated, columns }) => !generated && columns > MAX_COLUMNS);
  expect(long.map(({ path, columns }) => `${path}: ${columns}`)).toEqual([]);
  expect(new SourceFile(root, 'test/support/source-file.ts').columns).toBeGreaterThan(80);
});
