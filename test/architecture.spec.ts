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
const BELOW_STORES = /^lib\/(?:common|clock|contract|keys)\//;
/** The only file that loads ioredis, when a client is to be made. All files import its types at most. */
const IOREDIS_LOADER = 'lib/redis/load-ioredis.ts';
/** The types that options and the module take from the stores. */
const STORE_TYPES = ['lib/stores/store-context.ts'];
/** The modules of the package's entry points. */
const ENTRIES = Object.values(modules);

const files = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => new SourceFile(root, join('lib', name)));

/** The types of clients: what users give, and what stores need of them. */
const CLIENT_TYPES = ['lib/redis/redis-client.ts', 'lib/redis/client-port.ts'];

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
const ENTRY_FOLDERS = [
  'board',
  'cli',
  'fence',
  'node-redis',
  'opentelemetry',
  'prometheus',
  'standalone',
  'terminus',
  'testing',
  'transactional',
];

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
    const expected = [
      'clock',
      'common',
      'contract',
      'engine',
      'events',
      'keys',
      'nest',
      'options',
      'redis',
      'stores',
      ...ENTRY_FOLDERS,
    ];
    expect([...folders].toSorted()).toEqual(expected.map((name) => `lib/${name}`).toSorted());
  });

  it.each([
    ['common', []],
    ['clock', ['common']],
    ['keys', ['common']],
    ['contract', ['common']],
    ['events', ['common', 'clock', 'contract']],
  ])('%s knows Node, and of the library %j', (room, known) => {
    const rooms = [room, ...known].map((name) => `lib/${name}/`);
    // The parser that finds the names of parameters.
    const isParser = (from: string, path: string) => from === 'acorn' && path === 'lib/keys/source-parameters.ts';
    const isAllowed = ({ from }: Import, path: string) =>
      from.startsWith('node:') || rooms.some((folder) => from.startsWith(folder)) || isParser(from, path);
    expect(offences(inFolder(`lib/${room}/`), isAllowed)).toEqual([]);
  });

  it("the engine knows the stores' contract, the clock, keys, events and what is common", () => {
    const isAllowed = ({ from }: Import) => /^(?:node:|lib\/(?:clock|common|engine|contract|events|keys)\/)/.test(from);
    expect(offences(inFolder('lib/engine/'), isAllowed)).toEqual([]);
  });

  it('only one file imports ioredis, and all others use the port', () => {
    const isAllowed = ({ from }: Import, path: string) =>
      !from.startsWith('lib/redis/ioredis/') ||
      path === 'lib/redis/open-redis.ts' ||
      path.startsWith('lib/redis/ioredis/');
    expect(offences(files, isAllowed)).toEqual([]);
  });

  it("redis knows the stores' contract", () => {
    const isAllowed = ({ from }: Import) => /^(?:node:|lib\/redis\/|ioredis$)/.test(from) || BELOW_STORES.test(from);
    expect(offences(inFolder('lib/redis/'), isAllowed)).toEqual([]);
  });

  it('one file loads ioredis, and all others have its types only', () => {
    expect(offences(files, ({ from, typeOnly }) => from !== 'ioredis' || typeOnly)).toEqual([]);
    const loads = ({ path }: SourceFile) => /\('ioredis'\) as /.test(readFileSync(join(root, path), 'utf8'));
    expect(files.filter(loads).map(({ path }) => path)).toEqual([IOREDIS_LOADER]);
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

  it.each(STORES)('the store %s knows the contract, redis, and no other store', (name) => {
    const own = `lib/stores/${name}/`;
    const isAllowed = ({ from, typeOnly }: Import) =>
      from.startsWith('node:') ||
      BELOW_STORES.test(from) ||
      from.startsWith(own) ||
      from.startsWith('lib/redis/') ||
      /^lib\/stores\/(?!index)[^/]+$/.test(from) ||
      (from === 'ioredis' && typeOnly);
    expect(offences(inFolder(own), isAllowed)).toEqual([]);
  });

  it('what all stores share knows no store', () => {
    const shared = inFolder('lib/stores/').filter(({ path }) => /^lib\/stores\/(?!index)[^/]+$/.test(path));
    const isAllowed = ({ from }: Import) =>
      !STORES.some((name) => from.startsWith(`lib/stores/${name}/`)) &&
      /^(?:node:|lib\/(?:clock|common|contract|keys|redis|stores)\/)/.test(from);
    expect(shared).not.toHaveLength(0);
    expect(offences(shared, isAllowed)).toEqual([]);
  });

  it('a fence knows the scripts, how to run them, keys and errors', () => {
    const allowed = [
      'lib/common/errors.ts',
      'lib/common/check-options.ts',
      'lib/common/format-value.ts',
      'lib/keys/resource-key.ts',
      'lib/redis/redis-script.ts',
    ];
    const isAllowed = ({ from, typeOnly }: Import) =>
      from.startsWith('lib/fence/') || allowed.includes(from) || (CLIENT_TYPES.includes(from) && typeOnly);
    expect(offences(inFolder('lib/fence/'), isAllowed)).toEqual([]);
  });

  it("the adapter for node-redis knows redis and the stores' contract, and not its package", () => {
    const isAllowed = ({ from }: Import) =>
      /^lib\/(?:node-redis|redis)\//.test(from) || from === 'node:events' || BELOW_STORES.test(from);
    expect(offences(inFolder('lib/node-redis/'), isAllowed)).toEqual([]);
  });

  it('an adapter for transactions knows lock scopes, errors, and the types of its package', () => {
    const allowed = ['lib/common/errors.ts', 'lib/common/check-options.ts', 'lib/engine/lock-scope.ts'];
    const isAllowed = ({ from, typeOnly }: Import) =>
      from.startsWith('lib/transactional/') ||
      allowed.includes(from) ||
      (from === '@nestjs-cls/transactional' && typeOnly);
    expect(offences(inFolder('lib/transactional/'), isAllowed)).toEqual([]);
  });

  it('a health indicator knows the lock service, its ping, and Terminus', () => {
    const allowed = ['common/check-options', 'common/errors', 'contract/store-ping', 'clock/clock'].map(
      (name) => `lib/${name}.ts`,
    );
    allowed.push('lib/lock.service.ts', 'lib/nest/service-token.ts');
    allowed.push('lib/options/redis-lock.options.ts');
    const isAllowed = ({ from }: Import) =>
      /^(?:lib\/terminus\/|@nestjs\/(?:common|core|terminus)$)/.test(from) || allowed.includes(from);
    expect(offences(inFolder('lib/terminus/'), isAllowed)).toEqual([]);
  });

  it.each([
    ['opentelemetry', '@opentelemetry/api'],
    ['prometheus', 'prom-client'],
  ])('%s knows events, states and its package', (name, peer) => {
    const known = [
      'common/check-options',
      'common/errors',
      'common/version',
      'events/call',
      'events/diagnostics',
      'events/instance-states',
      'events/lock-collector',
      'events/tracing',
    ];
    const allowed = [peer, 'node:diagnostics_channel', ...known.map((file) => `lib/${file}.ts`)];
    const isAllowed = ({ from }: Import) => from.startsWith(`lib/${name}/`) || allowed.includes(from);
    expect(offences(inFolder(`lib/${name}/`), isAllowed)).toEqual([]);
  });

  it('the command line knows keys, redis and the store token, and no Nest', () => {
    const isAllowed = ({ from, typeOnly }: Import) =>
      /^(?:node:|lib\/(?:cli|clock|common|contract|keys|redis|stores\/token)\/)/.test(from) ||
      ['lib/lock-info.ts', 'lib/engine/lease.ts'].includes(from) ||
      (from === 'ioredis' && typeOnly);
    expect(offences(inFolder('lib/cli/'), isAllowed)).toEqual([]);
  });

  it('generated scripts import nothing', () => {
    const generated = files.filter((file) => file.generated);
    expect(generated.map(({ path }) => path)).toContain('lib/stores/token/scripts.ts');
    expect(offences(generated, () => false)).toEqual([]);
  });

  it.each(['options', 'nest'])("%s knows types of the stores' contract at most", (name) => {
    const isAllowed = ({ from, typeOnly }: Import) =>
      !/^lib\/(?:stores|redis|fence|testing)\//.test(from) ||
      (typeOnly && (STORE_TYPES.includes(from) || from === 'lib/redis/redis-client.ts'));
    expect(offences(inFolder(`lib/${name}/`), isAllowed)).toEqual([]);
  });

  it('a board knows the lock service and its types, errors, the clock, and Nest', () => {
    const allowed = [
      'lib/common/check-options.ts',
      'lib/common/errors.ts',
      'lib/common/format-value.ts',
      'lib/clock/clock.ts',
      'lib/nest/service-token.ts',
      'lib/lock-info.ts',
      'lib/lock.service.ts',
      'lib/options/redis-lock.options.ts',
    ];
    const isAllowed = ({ from }: Import) =>
      from.startsWith('lib/board/') || allowed.includes(from) || /^(?:node:|@nestjs\/common$|reflect-meta)/.test(from);
    expect(offences(inFolder('lib/board/'), isAllowed)).toEqual([]);
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

describe('sizes', () => {
  const written = files.filter(({ generated }) => !generated);

  it(`no line has more than ${MAX_COLUMNS} columns`, () => {
    const long = written.filter(({ columns }) => columns > MAX_COLUMNS);
    expect(long.map(({ path, columns }) => `${path}: ${columns}`)).toEqual([]);
  });

  it('reads the length of lines', () => {
    expect(new SourceFile(root, 'test/support/source-file.ts').columns).toBeGreaterThan(80);
  });
});
