// The TypeScript of the pages. `code.slow.spec.ts` compiles each block. Other tests call what blocks export.
import { join } from 'node:path';
import { transformSync } from '@swc/core';
import { pages, root } from '../support/pages.js';

/** A block of TypeScript on a page. */
export interface Block {
  readonly page: string;
  readonly code: string;
  /** The names that it exports. */
  readonly names: readonly string[];
  /** The name of the file that the compiler gets, without its ending. It is not written. */
  readonly module: string;
}

// oxlint-disable-next-line typescript/no-explicit-any -- the compiler checks the types of a page, not those of its test
type Exports = Record<string, any>;

/** Here the compiler finds the packages that only pages use. */
export const FOLDER = join(root, 'test');

const EXPORTED = /^export (?:async |abstract )*(?:class|function|const|interface|type) (\w+)/gm;
/** An import of another block, such as `./seat.service.js`, with its last name. */
const IMPORT = /import (\{[^}]*?(\w+)[,\s]*\}) from '\.\/[^']+'/g;

/** All blocks of TypeScript, in the order of the pages. */
export const blocks: readonly Block[] = pages.flatMap(({ path, text }) =>
  [...text.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code], i) => ({
    page: path,
    code,
    names: [...code.matchAll(EXPORTED)].map(([, name]) => name),
    module: `${path.replace('.md', '').replaceAll('/', '-')}-${i + 1}`,
  })),
);

/** Returns the languages of all blocks of code, in their order. */
export function languagesOf(text: string): readonly string[] {
  return [...text.matchAll(/^ *```(.*)\n[^]*?^ *```$/gm)].map(([, language]) => language);
}

/** Returns the block of a page, or of the README, that exports a name. */
function blockOf(path: string, name: string): Block {
  const exporting = blocks.filter(({ names }) => names.includes(name));
  const block = exporting.find((one) => one.page === path) ?? exporting.find((one) => one.page === 'README.md');
  if (block === undefined) throw new Error(`${path} has no block that exports ${name}.`);
  return block;
}

/** Returns the code of a block, in which an import of another block names its module. */
export function codeOf({ page, code }: Block): string {
  return code.replaceAll(IMPORT, (_, names: string, last: string) => {
    return `import ${names} from './${blockOf(page, last).module}.js'`;
  });
}

/**
 * Runs the blocks of a page that export these names, with the environment variables of now, and returns all their
 * exports. A block that they import runs before them, once.
 */
export function load(path: string, ...names: readonly string[]): Exports {
  const loaded = new Map<string, Exports>();
  return Object.assign({}, ...names.map((name) => run(blockOf(path, name), loaded))) as Exports;
}

/** Runs the block of a page that contains a text. */
export function runBlock(path: string, text: string): void {
  const block = blocks.find((one) => one.page === path && one.code.includes(text));
  if (block === undefined) throw new Error(`${path} has no block with ${text}.`);
  run(block, new Map());
}

function run(block: Block, loaded: Map<string, Exports>): Exports {
  const known = loaded.get(block.module);
  if (known !== undefined) return known;
  const exports: Exports = {};
  loaded.set(block.module, exports);
  const requireFrom = (specifier: string): unknown => {
    const imported = blocks.find(({ module }) => specifier === `./${module}.js`);
    return imported === undefined ? requirePackage(specifier) : run(imported, loaded);
  };
  // oxlint-disable-next-line typescript/no-implied-eval -- it is code of this repository
  new Function('exports', 'require', compiled(codeOf(block)))(exports, requireFrom);
  return exports;
}

/** Compiles a block as Jest compiles the tests. */
function compiled(code: string): string {
  return transformSync(code, {
    swcrc: false,
    module: { type: 'commonjs' },
    jsc: {
      target: 'es2022',
      keepClassNames: true,
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
    },
  }).code;
}

/** Returns the exports of a package that only pages use. Its types are not installed for `npm run typecheck`. */
export function requirePackage(name: string): Exports {
  return require(name) as Exports;
}
