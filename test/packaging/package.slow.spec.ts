// The packed tarball, as it would be published, in fresh projects of users: NestJS 10, 11 and 12, CommonJS and ES modules,
// ioredis 5 and 6, TypeScript 5 and 6, jest 29 and 30.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { run } from './command.js';
import { Consumer, packTarball } from './consumer.js';
import { testRedisUrl } from '../support/shared-redis.js';

const root = join(__dirname, '..');
const basics = ['goods.ts', 'checks.ts', 'types.ts'];

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
  add('nest12-esm', 'main.ts');
  add('nest11-cjs', 'main.ts');
  add('nest11-jest', 'consumer.test.ts', 'behaviour.test.ts');
  add('nest10-jest', 'consumer.test.ts', 'behaviour.test.ts');
  await tarball;
});

afterAll(async () => {
  await Promise.allSettled([...consumers.values()].map((each) => each.installed()));
  await rm(folder, { recursive: true, force: true });
});

/** The names that an entry point exports: those with a value, and all of them as its declarations have them. */
interface Surface {
  readonly values: string[];
  readonly declared: string[];
}

/** By their folders in `dist`. */
const ENTRIES = { root: '', fence: 'fence', testing: 'testing' } as const;
type Entry = keyof typeof ENTRIES;

async function committedSurface(): Promise<Record<Entry, Surface>> {
  const text = await readFile(join(__dirname, 'consumers', 'public-api.txt'), 'utf8');
  const surfaceOf = (entry: string): Surface => {
    const section = text.split(/^# /m).find((part) => part.startsWith(`${entry}\n`)) ?? '';
    const declared = section
      .split('\n')
      .slice(1)
      .filter((line) => line !== '');
    return { declared, values: declared.filter((name) => !name.startsWith('type ')) };
  };
  return {
    root: surfaceOf('nestjs-redis-lock'),
    fence: surfaceOf('nestjs-redis-lock/fence'),
    testing: surfaceOf('nestjs-redis-lock/testing'),
  };
}

async function committedValues(): Promise<Record<Entry, string[]>> {
  const { root: main, fence, testing } = await committedSurface();
  return { root: main.values, fence: fence.values, testing: testing.values };
}

async function declaredNames(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8');
  const lists = [...text.matchAll(/^export (type )?\{([^}]*)\}/gm)];
  expect(text.match(/^export /gm)).toHaveLength(lists.length);
  return lists.flatMap(([, type = '', names = '']) => {
    const each = names.split(',').map((name) => name.trim());
    return each.filter((name) => name !== '').map((name) => (name.startsWith('type ') ? name : type + name));
  });
}

describe('the tarball', () => {
  it('is clean to publint and to are-the-types-wrong', async () => {
    const bin = (name: string) => join(root, 'node_modules', '.bin', name);
    const options = { cwd: root, timeoutMs: 60_000 };
    await run('publint', process.execPath, [bin('publint'), 'run', await tarball, '--strict'], options);
    await run('attw', process.execPath, [bin('attw'), await tarball], options);
  });

  it('holds what is built, and no sources or tests', async () => {
    const installed = await consumer('nest12-esm').installed();
    const files = (await readdir(installed)).toSorted();
    expect(files).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'dist', 'package.json']));
    expect(files.filter((file) => !/^(CHANGELOG\.md|LICENSE|README\.md|dist|package\.json)$/.test(file))).toEqual([]);
    expect((await readdir(join(installed, 'dist'))).toSorted()).toEqual(['cjs', 'esm']);
  });

  it('declares the same names to TypeScript as ever', async () => {
    const dist = join(await consumer('nest12-esm').installed(), 'dist');
    const committed = await committedSurface();
    for (const format of ['esm', 'cjs']) {
      for (const [entry, entryFolder] of Object.entries(ENTRIES)) {
        const names = await declaredNames(join(dist, format, entryFolder, 'index.d.ts'));
        expect(names.toSorted()).toEqual(committed[entry as Entry].declared);
      }
    }
  });

  it('imports only what it declares', async () => {
    const installed = await consumer('nest12-esm').installed();
    const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as Record<string, object>;
    const declared = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies }).toSorted();
    const files = (await readdir(join(installed, 'dist'), { recursive: true })).filter((file) =>
      /\.(js|d\.ts)$/.test(file),
    );
    const imported = new Set<string>();
    for (const file of files) {
      const text = await readFile(join(installed, 'dist', file), 'utf8');
      for (const [, name = ''] of text.matchAll(
        /(?:^import |^\} from |\bfrom |\brequire\(|\bimport\()['"]([^'"]+)['"]/gm,
      )) {
        const specifier = /^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name;
        if (!name.startsWith('.') && !isBuiltin(name)) imported.add(specifier);
      }
    }
    expect([...imported].toSorted()).toEqual(declared);
  });
});

describe.each([
  ['nest12-esm', ['node16', 'nodenext']],
  ['nest11-cjs', ['node16']],
])('a project without jest: %s', (name, modules) => {
  it('compiles with any module resolution, libraries checked', async () => {
    await consumer(name).tsc('--noEmit', '--module', 'preserve', '--moduleResolution', 'bundler');
    for (const module of modules) await consumer(name).tsc('--module', module);
  });

  it('locks, has one copy of every class, and ends by itself', async () => {
    const output = await consumer(name).node('node out/main.js', ['out/main.js']);
    expect(output).toMatch(/^all checks passed$/m);
    expect(JSON.parse(/^exports (.*)$/m.exec(output)?.[1] ?? '{}')).toEqual(await committedValues());
  });
});

describe.each(['nest11-jest', 'nest10-jest'])('a project with jest: %s', (name) => {
  it('compiles, libraries checked', async () => {
    await consumer(name).tsc('--noEmit');
  });

  it('passes its tests, and ends by itself', async () => {
    await consumer(name).write('public-api.json', JSON.stringify(await committedValues()));
    const args = ['node_modules/jest/bin/jest.js', '--ci', '--runInBand', '--verbose'];
    const output = await consumer(name).node('jest', args);
    expect(output).toMatch(/^Test Suites: 2 passed, 2 total$/m);
    expect(output).toMatch(/^Tests: +(\d+) passed, \1 total$/m);
  });
});

describe('a key function that does not fit its method', () => {
  it('is told so by the compiler', async () => {
    const project = consumer('nest12-esm');
    await project.write(
      'src/misfit.ts',
      `import { Locked } from 'nestjs-redis-lock';
       export class Orders { @Locked((id: number) => \`order:\${id}\`) cancel(id: string): string { return id; } }`,
    );
    const refusal = await project.refused('tsc', ['node_modules/typescript/bin/tsc', '--noEmit']);
    expect(refusal).toContain('the parameters of the key function are not those of the method');
    expect(refusal.match(/error TS/g)).toHaveLength(1);
  });
});
