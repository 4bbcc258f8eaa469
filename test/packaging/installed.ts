// Reads the package as it is installed.
import { readdir, readFile, stat } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { dirname, join, relative } from 'node:path';
import * as ts from 'typescript';

/** The names that each entry point exports, by its path in `exports`. A name without a value begins with `type `. */
export type Surfaces = Readonly<Record<string, readonly string[]>>;

/** Parses `public-api.txt`: a section for each entry point, a line for each name. */
export function namesIn(text: string): Surfaces {
  const sections = text.split(/^# nestjs-redis-lock/m).slice(1);
  return Object.fromEntries(
    sections.map((section) => {
      const [path = '', ...names] = section.split('\n');
      return [`.${path}`, names.filter((name) => name !== '')];
    }),
  );
}

/** Returns the names that each of the declaration files exports, in the form and order of `public-api.txt`. */
export function declaredNames(files: readonly string[]): readonly string[][] {
  const options = { module: ts.ModuleKind.NodeNext, skipLibCheck: true, noEmit: true };
  const program = ts.createProgram(files, options);
  return files.map((file) => namesOfFile(file, program));
}

function namesOfFile(file: string, program: ts.Program): string[] {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  if (!module) throw new Error(`${file} is not a module`);
  return checker
    .getExportsOfModule(module)
    .map((symbol) => {
      const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
      const typeOnly = isExportedAsType(symbol) || !(target.flags & ts.SymbolFlags.Value);
      return typeOnly ? `type ${symbol.name}` : symbol.name;
    })
    .toSorted();
}

function isExportedAsType(symbol: ts.Symbol): boolean {
  return (symbol.declarations ?? []).some((node) => ts.isExportSpecifier(node) && node.parent.parent.isTypeOnly);
}

/** Returns every file of the package, with its size in bytes. */
export async function filesOf(installed: string): Promise<{ readonly path: string; readonly size: number }[]> {
  const entries = await readdir(installed, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return Promise.all(files.map(async (file) => ({ path: relative(installed, file), size: (await stat(file)).size })));
}

/** What a file imports, in the order of the file. */
export interface Imports {
  readonly files: string[];
  readonly packages: string[];
}

/** Returns what the text of a module, or of declarations, imports. */
export function importsOf(text: string): Imports {
  const imports: Imports = { files: [], packages: [] };
  const pattern = /(?:^import |\bfrom ?|\brequire\(|\bimport\()['"]([^'"\n]+)['"]/gm;
  for (const [, name = ''] of text.matchAll(pattern)) {
    if (name.startsWith('.')) imports.files.push(name);
    else if (!isBuiltin(name)) imports.packages.push(/^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name);
  }
  return imports;
}

/** Returns the code of a module and of all files that it imports, and the packages in the order in which they load. */
export async function loadedBy(dist: string, entry: string): Promise<{ code: string; packages: string[] }> {
  const seen = new Set<string>();
  const packages = new Set<string>();
  let code = '';
  const walk = async (file: string): Promise<void> => {
    if (seen.has(file)) return;
    seen.add(file);
    const text = await readFile(file, 'utf8');
    const imports = importsOf(text);
    for (const name of imports.packages) packages.add(name);
    for (const next of imports.files) await walk(join(dirname(file), next));
    code += text;
  };
  await walk(join(dist, entry));
  return { code, packages: [...packages] };
}
