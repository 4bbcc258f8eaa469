import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { SourceFile, type Import } from './support/source-file.js';

const root = resolve(__dirname, '..');
const MAX_LINES = 400;
const GENERATED = /\/scripts\.ts$/;
const CLOCK = 'lib/core/time/clock.ts';
const AMBIENT =
  /^(?:Date\.now|new Date\(\)|performance\.now|Math\.random|AbortSignal\.timeout|set(?:Timeout|Interval))$/;
const CORE_FOR_STORES = [
  'async-context',
  'check-options',
  'errors',
  'keys/resource-key',
  'store/forward-to',
  'store/lock-store',
  'time/clock',
].map((name) => `lib/core/${name}.ts`);

const files = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => new SourceFile(root, join('lib', name)));

const inFolder = (folder: string) => files.filter(({ path }) => path.startsWith(folder));

function offences(of: readonly SourceFile[], isAllowed: (imported: Import) => boolean): string[] {
  return of.flatMap(({ path, imports }) =>
    imports.filter((imported) => !isAllowed(imported)).map(({ from }) => `${path} imports ${from}`),
  );
}

function cycles(): string[] {
  const graph = new Map(files.map((file) => [file.path, file.imports.map(({ from }) => from)]));
  const done = new Set<string>();
  const found: string[] = [];
  const walk = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) found.push([...trail.slice(trail.indexOf(path)), path].join(' > '));
    else if (!done.has(path)) {
      for (const next of graph.get(path) ?? []) walk(next, [...trail, path]);
      done.add(path);
    }
  };
  for (const path of graph.keys()) walk(path, []);
  return found;
}

describe('architecture', () => {
  it('has every floor to look at', () => {
    for (const folder of ['lib/core/', 'lib/stores/']) expect(inFolder(folder)).not.toHaveLength(0);
  });

  it('core knows Node only', () => {
    expect(offences(inFolder('lib/core/'), ({ from }) => /^(?:node:|lib\/core\/)/.test(from))).toEqual([]);
  });

  it('stores know the scripts, the contract of the core, and only the types of ioredis', () => {
    const isAllowed = ({ from, typeOnly, dynamic }: Import) =>
      /^(?:node:|lib\/stores\/)/.test(from) ||
      CORE_FOR_STORES.includes(from) ||
      (from === 'ioredis' && (typeOnly || dynamic));
    expect(offences(inFolder('lib/stores/'), isAllowed)).toEqual([]);
  });

  it('a store knows what all stores have in common, and no other store', () => {
    const stores = ['token', 'memory', 'timestamp', 'redisson', 'quorum'].map((name) => `lib/stores/${name}/`);
    for (const own of stores) {
      const others = stores.filter((folder) => folder !== own);
      expect(inFolder(own)).not.toHaveLength(0);
      expect(offences(inFolder(own), ({ from }) => !others.some((folder) => from.startsWith(folder)))).toEqual([]);
    }
    expect(
      offences(inFolder('lib/stores/redis/'), ({ from }) => !stores.some((folder) => from.startsWith(folder))),
    ).toEqual([]);
  });

  it('a fence knows the scripts, how to run them, and the errors: no store, no Nest', () => {
    const known = ['redis/decode', 'redis/redis-script', 'core/errors', 'core/keys/resource-key'];
    const allowed = known.map((name) => `lib/${name}.ts`);
    const isAllowed = ({ from, typeOnly }: Import) =>
      from.startsWith('lib/fence/') || allowed.includes(from) || (from === 'lib/redis/redis-client.ts' && typeOnly);
    expect(inFolder('lib/fence/')).not.toHaveLength(0);
    expect(offences(inFolder('lib/fence/'), isAllowed)).toEqual([]);
  });

  it('generated scripts import nothing', () => {
    const generated = files.filter(({ path }) => GENERATED.test(path));
    expect(generated).toHaveLength(6);
    expect(offences(generated, () => false)).toEqual([]);
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

  it(`no file is longer than ${MAX_LINES} lines`, () => {
    const long = files.filter(({ path, lines }) => !GENERATED.test(path) && lines > MAX_LINES);
    expect(long.map(({ path, lines }) => `${path}: ${lines}`)).toEqual([]);
  });

  it('imports make no cycle', () => {
    expect(cycles()).toEqual([]);
  });
});
