import { createHash } from 'node:crypto';
import ts from 'typescript';

/** A change of one piece of a source. */
export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly original: string;
  readonly replacement: string;
  /** A statement is removed, an expression is replaced. */
  readonly isStatement: boolean;
  /** Names the mutant independently of the lines above it. */
  readonly key: string;
}

export type Change = Pick<Mutant, 'start' | 'end' | 'replacement'> & { readonly isStatement?: boolean };

const BINARY: Readonly<Record<string, readonly string[]>> = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '+=': ['-='],
  '-=': ['+='],
};
const LOGICAL = new Set(['&&', '||', '??']);
const METHODS: Readonly<Record<string, string>> = { some: 'every', every: 'some' };
/** What these get as arguments is a text for people. */
const TELLS = /(?:^new \w*Error|\b(?:log|warn|error|debug|verbose))$/;

/** Returns all mutants of a file of TypeScript. Texts, types and what only logs or throws have none. */
export function mutantsOf(file: string, text: string): readonly Mutant[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
  const changes: Change[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isThrowStatement(node) || ts.isImportDeclaration(node)) return;
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isEnumDeclaration(node)) return;
    if (ts.isNewExpression(node) && TELLS.test(`new ${node.expression.getText()}`)) return;
    if (ts.isCallExpression(node) && TELLS.test(node.expression.getText())) return;
    changes.push(...changesOf(node));
    ts.forEachChild(node, visit);
  };
  visit(source);
  return named(file, text, changes);
}

/** Adds what names a mutant to each change. */
export function named(file: string, text: string, changes: readonly Change[]): readonly Mutant[] {
  const counts = new Map<string, number>();
  return changes.map(({ start, end, replacement, isStatement = false }) => {
    const original = text.slice(start, end);
    const line = text.slice(0, start).split('\n').length;
    const words = [file, original, replacement, isStatement].join('\n');
    const nth = (counts.get(words) ?? 0) + 1;
    counts.set(words, nth);
    const key = createHash('sha256').update(`${words}\n${nth}`).digest('hex').slice(0, 16);
    return { file, line, start, end, original, replacement, isStatement, key };
  });
}

function changesOf(node: ts.Node): readonly Change[] {
  const at = { start: node.getStart(), end: node.getEnd() };
  const by = (...texts: readonly string[]): readonly Change[] => texts.map((replacement) => ({ ...at, replacement }));
  const text = node.getText();
  if (ts.isExpressionStatement(node)) return removalsOf(node, at);
  if (ts.isNumericLiteral(node)) return ts.isPropertyName(node) && isNameOf(node) ? [] : by(...neighboursOf(text));
  if (node.kind === ts.SyntaxKind.TrueKeyword) return by('false');
  if (node.kind === ts.SyntaxKind.FalseKeyword) return by('true');
  if (ts.isBinaryExpression(node)) return by(...binariesOf(node));
  if (ts.isPrefixUnaryExpression(node)) return by(...prefixesOf(node));
  if (ts.isPostfixUnaryExpression(node))
    return by(text.endsWith('++') ? text.replace(/\+\+$/, '--') : `${text.slice(0, -2)}++`);
  if (ts.isCallExpression(node)) return by(...callsOf(node));
  if (ts.isIfStatement(node)) return bothWays(node.expression);
  if (ts.isConditionalExpression(node)) return bothWays(node.condition);
  if (ts.isWhileStatement(node)) return [{ ...rangeOf(node.expression), replacement: 'false' }];
  return [];
}

const rangeOf = (node: ts.Node) => ({ start: node.getStart(), end: node.getEnd() });

function bothWays(condition: ts.Expression): readonly Change[] {
  return ['true', 'false'].map((replacement) => ({ ...rangeOf(condition), replacement }));
}

function removalsOf({ expression }: ts.ExpressionStatement, at: Pick<Change, 'start' | 'end'>): readonly Change[] {
  const text = expression.getText();
  if (text.startsWith('super(') || ts.isStringLiteral(expression)) return [];
  if (ts.isCallExpression(expression) && TELLS.test(expression.expression.getText())) return [];
  return [{ ...at, replacement: '', isStatement: true }];
}

function isNameOf(node: ts.NumericLiteral): boolean {
  return 'name' in node.parent && node.parent.name === node;
}

export function neighboursOf(number: string): readonly string[] {
  return number === '0' ? ['1'] : [`(${number} + 1)`, `(${number} - 1)`];
}

function binariesOf(node: ts.BinaryExpression): readonly string[] {
  const operator = node.operatorToken.getText();
  const [left, right] = [node.left.getText(), node.right.getText()];
  if (LOGICAL.has(operator)) return [left, right];
  if (operator.startsWith('+') && (isText(node.left) || isText(node.right))) return [];
  return (BINARY[operator] ?? []).map((other) => `${left} ${other} ${right}`);
}

function isText(node: ts.Expression): boolean {
  if (ts.isBinaryExpression(node)) return isText(node.left) || isText(node.right);
  return ts.isStringLiteral(node) || ts.isTemplateExpression(node) || ts.isNoSubstitutionTemplateLiteral(node);
}

function prefixesOf(node: ts.PrefixUnaryExpression): readonly string[] {
  const operand = node.operand.getText();
  if (node.operator === ts.SyntaxKind.ExclamationToken) return [operand];
  if (node.operator === ts.SyntaxKind.MinusToken && !ts.isNumericLiteral(node.operand)) return [operand];
  return [];
}

function callsOf(node: ts.CallExpression): readonly string[] {
  const callee = node.expression.getText();
  if (/^Math\.(?:max|min)$/.test(callee)) {
    return node.arguments.length === 2 ? node.arguments.map((argument) => argument.getText()) : [];
  }
  const method = ts.isPropertyAccessExpression(node.expression) ? node.expression.name : undefined;
  const other = method && Object.hasOwn(METHODS, method.text) ? METHODS[method.text] : undefined;
  if (method === undefined || other === undefined) return [];
  const offset = node.getStart();
  return [node.getText().slice(0, method.getStart() - offset) + other + node.getText().slice(method.getEnd() - offset)];
}

/** Returns how many lines of a file have code. */
export function linesOfCode(text: string): number {
  const source = ts.createSourceFile('file.ts', text, ts.ScriptTarget.ES2022, true);
  const lines = new Set<number>();
  const visit = (node: ts.Node): void => {
    if (node.getChildCount() === 0 && node.getWidth() > 0) {
      lines.add(source.getLineAndCharacterOfPosition(node.getStart()).line);
    }
    if (!ts.isJSDoc(node)) for (const child of node.getChildren()) visit(child);
  };
  visit(source);
  return lines.size;
}

/** Returns the source with a switch at each mutant. The mutant whose number is active replaces the original. */
export function instrumented(text: string, mutants: readonly (Mutant & { readonly id: number })[]): string {
  const render = (start: number, end: number, inside: readonly (Mutant & { readonly id: number })[]): string => {
    const [first, ...others] = inside.toSorted((a, b) => a.start - b.start || b.end - a.end);
    if (first === undefined) return text.slice(start, end);
    const within = others.filter((other) => other.end <= first.end);
    const after = others.filter((other) => other.start >= first.end);
    const original = render(first.start, first.end, within);
    const isActive = `globalThis.isMutant?.(${first.id})`;
    const replaced = first.isStatement
      ? `{ if (!${isActive}) { ${original} } }`
      : `(${isActive} ? (${first.replacement}) : (${original}))`;
    return text.slice(start, first.start) + replaced + render(first.end, end, after);
  };
  return render(0, text.length, mutants);
}
