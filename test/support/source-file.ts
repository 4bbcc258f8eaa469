import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import * as ts from 'typescript';

export interface Import {
  /** The path of a repository file, such as `lib/engine/lock.ts`, or the name of a module. */
  readonly from: string;
  readonly typeOnly: boolean;
  readonly dynamic: boolean;
}

/** What the architecture test needs of a file. It is read from the syntax, so comments do not count. */
export class SourceFile {
  readonly imports: readonly Import[];
  /** Columns of the longest line. */
  readonly columns: number;
  /** The first line says that a program writes the file. */
  readonly generated: boolean;
  /** Every dotted name in the code: `Date.now`, `setTimeout`, `new Date()` and so on. */
  readonly names: ReadonlySet<string>;

  constructor(
    root: string,
    readonly path: string,
  ) {
    const text = readFileSync(join(root, path), 'utf8');
    const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true);
    const imports: Import[] = [];
    const names = new Set<string>();
    const add = (specifier: ts.Expression | undefined, typeOnly: boolean, dynamic: boolean) => {
      if (specifier && ts.isStringLiteral(specifier)) {
        imports.push({ from: this.resolve(root, specifier.text), typeOnly, dynamic });
      }
    };
    const visit = (node: ts.Node): void => {
      if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, isTypeOnly(node.importClause), false);
      else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly, false);
      else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
        add(node.argument.literal, true, false);
      else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
        add(node.arguments[0], false, true);
      } else if (ts.isPropertyAccessExpression(node)) names.add(node.getText().replace(/^globalThis\./, ''));
      else if (ts.isNewExpression(node) && !node.arguments?.length) names.add(`new ${node.expression.getText()}()`);
      else if (ts.isIdentifier(node) && ts.isCallExpression(node.parent)) names.add(node.text);
      ts.forEachChild(node, visit);
    };
    visit(source);
    this.imports = imports;
    this.names = names;
    this.columns = Math.max(...text.split('\n').map((line) => line.length));
    this.generated = text.startsWith('// Generated ');
  }

  private resolve(root: string, specifier: string): string {
    if (!specifier.startsWith('.')) return specifier;
    return relative(root, join(root, dirname(this.path), specifier)).replace(/\.js$/, '.ts');
  }
}

/** Whether the import is `import type …` or has only `type` names in its braces. */
function isTypeOnly(clause: ts.ImportClause | undefined): boolean {
  if (!clause) return false;
  const bindings = clause.namedBindings;
  const onlyTypes = bindings && ts.isNamedImports(bindings) && bindings.elements.every((element) => element.isTypeOnly);
  return clause.phaseModifier === ts.SyntaxKind.TypeKeyword || (!clause.name && onlyTypes === true);
}
