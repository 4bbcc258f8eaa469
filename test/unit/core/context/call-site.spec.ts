import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import {
  callerInProgram,
  callerOf,
  callersOf,
  OWN_FILE,
  ownPlace,
  shortSite,
} from '../../../../lib/core/context/call-site.js';

const SOURCE = join(__dirname, '../../../../lib/core/context/call-site.ts');
const here = (site: { readonly file: string } | undefined): boolean => site?.file === __filename;

class Stock {
  buy<T>(callee: () => T): T {
    return callee();
  }
}

describe('the place of a call', () => {
  const format: unknown = Reflect.get(Error, 'prepareStackTrace');
  const { stackTraceLimit } = Error;

  afterEach(() => {
    Object.defineProperty(Error, 'stackTraceLimit', { value: stackTraceLimit, writable: true, configurable: true });
    Reflect.set(Error, 'prepareStackTrace', format);
  });

  it('is the innermost one that is not in this library', () => {
    expect(OWN_FILE).toBe(SOURCE);
    expect(callerInProgram()).toMatchObject({ file: __filename, line: expect.any(Number) as unknown });
    expect(shortSite(callerInProgram() as never)).toMatch(/^call-site\.spec\.ts:\d+:\d+$/);
  });

  it('is that of the function which has called another one', () => {
    const callee = (): unknown => callerOf(callee);
    expect(new Stock().buy(callee)).toMatchObject({ name: 'Stock.buy', file: __filename });
  });

  it('is a line of the innermost callers', () => {
    const callee = (): string | undefined => callersOf(callee, 2);
    expect(new Stock().buy(callee)).toMatch(/^Stock\.buy \(.*spec\.[^,]*, from [^,]*spec\.[^,]*$/);
  });

  it('leaves the stacks of the program as they are', () => {
    Error.stackTraceLimit = 7;
    const own = (): string => 'formatted';
    Error.prepareStackTrace = own;
    const callee = (): unknown => [callerOf(callee), callersOf(callee, 2), callerInProgram()];
    callee();
    expect([Error.stackTraceLimit, Reflect.get(Error, 'prepareStackTrace') as unknown]).toEqual([7, own]);
    expect(new Error('for its stack').stack).toBe('formatted');
  });

  it.each([
    ['returns no text', () => [] as unknown],
    [
      'throws',
      () => {
        throw new Error('no format');
      },
    ],
  ])('is unknown if the program has a format of stacks that %s', (_what, own) => {
    Error.prepareStackTrace = own;
    const callee = (): unknown => [callerOf(callee), callerInProgram()];
    expect(callee()).toEqual([undefined, undefined]);
  });

  it('is found with the limit of the program if that cannot be changed', () => {
    Object.defineProperty(Error, 'stackTraceLimit', { value: 50, writable: false, configurable: true });
    const callee = (): unknown => callerOf(callee);
    expect(here(new Stock().buy(callee) as never)).toBe(true);
    expect(here(callerInProgram())).toBe(true);
  });

  it.each([
    ['/app/node_modules/nestjs-redis-lock/dist/esm/chunks/library.js', '/app/node_modules/nestjs-redis-lock/dist/'],
    ['/work/locks/dist/cjs/index.js', '/work/locks/dist/'],
    ['C:\\work\\locks\\dist\\cjs\\chunks\\call-site.js', 'C:\\work\\locks\\dist\\'],
    ['/work/locks/lib/core/context/call-site.ts', '/work/locks/lib/'],
    ['/app/dist/main.js', '/app/dist/main.js'],
    ['/app/lib/server.js', '/app/lib/server.js'],
  ])('of a library in %s is outside of %s', (file, place) => {
    expect(ownPlace(file)).toBe(place);
  });

  it('is found beside the bundle that has this library', async () => {
    const folder = join(mkdtempSync(join(tmpdir(), 'call-site-')), 'dist');
    try {
      mkdirSync(folder);
      const { outputText } = ts.transpileModule(readFileSync(SOURCE, 'utf8'), {
        compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
      });
      writeFileSync(join(folder, 'main.mjs'), `${outputText}\nexport const inBundle = () => callerInProgram();`);
      const shop = `import { inBundle, shortSite } from './main.mjs';\nconsole.log(shortSite(inBundle()));\n`;
      writeFileSync(join(folder, 'shop.mjs'), shop);
      const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'shop.mjs')]);
      expect(stdout).toBe('shop.mjs:2:23\n');
    } finally {
      rmSync(join(folder, '..'), { recursive: true });
    }
  });
});
