import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { modules } from '../../tools/entry-points.cjs';

const root = join(__dirname, '../..');
const declarations = join(root, '.cache/exact-optional');
const checked = join(__dirname, 'exact-optional/options.ts');

/** Options whose optional properties Nest, ioredis or a store declares. */
const FOREIGN = ['RedisLockModuleAsyncOptions', 'RedisClusterOptions', 'HandoffOptions'];

function readConfig(name: string): ts.ParsedCommandLine {
  const path = join(root, name);
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => undefined };
  const config = ts.getParsedCommandLineOfConfigFile(path, {}, host);
  if (config === undefined) throw new Error(`${name} cannot be read`);
  return config;
}

/** Returns the errors of this package's declarations and of the file that uses them. */
function errorsOf(program: ts.Program): string[] {
  const own = program
    .getSourceFiles()
    .filter(({ fileName }) => fileName === checked || fileName.startsWith(declarations));
  expect(own.length).toBeGreaterThan(10);
  return own
    .flatMap((file) => [...program.getSemanticDiagnostics(file)])
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`);
}

beforeAll(() => {
  rmSync(declarations, { recursive: true, force: true });
  mkdirSync(declarations, { recursive: true });
  const { fileNames, options } = readConfig('tsconfig.build.json');
  ts.createProgram(fileNames, { ...options, outDir: declarations, emitDeclarationOnly: true }).emit();
});

afterAll(() => rmSync(declarations, { recursive: true, force: true }));

describe('with exactOptionalPropertyTypes', () => {
  it('every option may be undefined', () => {
    const { options } = readConfig('tsconfig.json');
    const paths = Object.entries(modules).map(([name, path]) => {
      return [name, [join(declarations, path.replace(/^lib\//, '').replace(/\.ts$/, '.d.ts'))]] satisfies [
        string,
        string[],
      ];
    });
    const program = ts.createProgram([checked], {
      ...options,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      paths: Object.fromEntries(paths),
    });
    expect(errorsOf(program)).toEqual([]);
  });

  it('the options of all entry points are looked at', () => {
    const source = readFileSync(checked, 'utf8');
    const surface = readFileSync(join(__dirname, 'public-api.txt'), 'utf8');
    const names = [...surface.matchAll(/^type (\w+(?:Options|Extras))$/gm)].map(([, name]) => name);
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !FOREIGN.includes(name) && !source.includes(`<${name}`))).toEqual([]);
  });
});
