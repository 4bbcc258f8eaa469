import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import ts from 'typescript';
import { root } from '../support/pages.js';
import { blocks, codeOf, FOLDER } from './blocks.js';

/** Compiles all blocks of the pages, with the options of this repository, and returns the errors. */
function errors(): readonly string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path)) as {
    config: object;
  };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const fileOf = (module: string): string => join(FOLDER, `${module}.ts`);
  const files = new Map(blocks.map((block) => [fileOf(block.module), codeOf(block)]));
  const host = ts.createCompilerHost(options);
  const withBlocks: ts.CompilerHost = {
    ...host,
    fileExists: (file) => files.has(file) || host.fileExists(file),
    readFile: (file) => files.get(file) ?? host.readFile(file),
    // The host reads by its own `readFile`.
    getSourceFile: (file, ...rest) => {
      const code = files.get(file);
      return code === undefined ? host.getSourceFile(file, ...rest) : ts.createSourceFile(file, code, rest[0], true);
    },
  };
  const program = ts.createProgram([...files.keys()], options, withBlocks);
  return blocks.flatMap(({ page, module }) => {
    const source = program.getSourceFile(fileOf(module));
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    return found.map(({ start = 0, messageText }) => {
      const [line = ''] = source?.text.slice(start).split('\n', 1) ?? [];
      return `${page}, at ${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
    });
  });
}

it('every block of TypeScript on a page compiles as a file of its own', () => {
  expect(blocks.length).toBeGreaterThan(30);
  expect(errors()).toEqual([]);
});

// Users paste this code into applications of `nest new`, whose ESLint configuration refuses needless `async`.
it.each(['README.md', 'docs/index.md', 'docs/quick-start.md'])('no function is needlessly async: %s', (page) => {
  const needless: string[] = [];
  const visit = (node: ts.Node): void => {
    const isAsync = ts.isFunctionLike(node) && (ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Async) !== 0;
    if (isAsync && !/\bawait\b/.test(node.getText())) needless.push(node.getText());
    ts.forEachChild(node, visit);
  };
  const own = blocks.filter((block) => block.page === page);
  for (const { code } of own) visit(ts.createSourceFile('page.ts', code, ts.ScriptTarget.ES2022, true));
  expect(own.length).toBeGreaterThan(0);
  expect(needless).toEqual([]);
});
