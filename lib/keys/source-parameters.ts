import { createRequire } from 'node:module';
import type { Expression, MethodDefinition, Options, Pattern } from 'acorn';

/** The parameters of a function as written in its source. */
export interface ParameterList {
  /**
   * The names in source order, `undefined` for a pattern such as `{ id }`. The list ends before a rest parameter,
   * because its name stands for several arguments.
   */
  readonly names: readonly (string | undefined)[];
  /** The indexes of the parameters with a default value. */
  readonly defaults: ReadonlySet<number>;
}

// The source is a piece of a module or script. Code around it may declare private names and allow `super` and `await`.
const OPTIONS: Options = {
  ecmaVersion: 'latest',
  allowAwaitOutsideFunction: true,
  allowImportExportEverywhere: true,
  allowSuperOutsideMethod: true,
  checkPrivateFields: false,
};

/**
 * Returns the parameters of a method, a function or an arrow function.
 *
 * @param source what `Function.prototype.toString` returns for it.
 * @returns `undefined` for a class, for native code such as a bound function, and for source that cannot be parsed.
 */
export function functionParameters(source: string): ParameterList | undefined {
  const expression = parseExpression(source);
  if (expression?.type === 'FunctionExpression' || expression?.type === 'ArrowFunctionExpression') {
    return parametersOf(expression.params);
  }
  // The source of a method is not an expression by itself.
  return expression === undefined ? parametersOf(methodsOf(`class {${source}\n}`)[0]?.value.params) : undefined;
}

/**
 * Returns the parameters of a method as written in its class.
 *
 * @param source what `Function.prototype.toString` returns for the class.
 * @returns `undefined` if the class cannot be parsed, or has no method whose name is this identifier or literal.
 */
export function methodParameters(source: string, name: string): ParameterList | undefined {
  // The last method with a name counts, as in the class itself.
  const method = methodsOf(source).findLast(({ static: isStatic, key, computed }) => {
    const written = key.type === 'Literal' ? String(key.value) : !computed && key.type === 'Identifier' && key.name;
    return !isStatic && written === name;
  });
  return parametersOf(method?.value.params);
}

/** Loads the parser with the first source, because an application may have no template to bind. */
function loadParser(): typeof import('acorn') {
  // A bundler finds the package by this call. An ES module has no `require` in Node.
  if (typeof require === 'function') return require('acorn') as typeof import('acorn');
  return createRequire(import.meta.url)('acorn') as typeof import('acorn');
}

function parseExpression(source: string): Expression | undefined {
  const { parse } = loadParser();
  try {
    const [statement] = parse(`(${source}\n)`, OPTIONS).body;
    return statement?.type === 'ExpressionStatement' ? statement.expression : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the methods of a class. None if its source cannot be parsed. */
function methodsOf(source: string): MethodDefinition[] {
  const parsed = parseExpression(source);
  if (parsed?.type !== 'ClassExpression') return [];
  return parsed.body.body.filter((member) => member.type === 'MethodDefinition');
}

function parametersOf(params: readonly Pattern[] | undefined): ParameterList | undefined {
  if (params === undefined) return undefined;
  const named = params.at(-1)?.type === 'RestElement' ? params.slice(0, -1) : params;
  const names = named.map((param) => {
    const target = param.type === 'AssignmentPattern' ? param.left : param;
    return target.type === 'Identifier' ? target.name : undefined;
  });
  const defaults = named.flatMap(({ type }, index) => (type === 'AssignmentPattern' ? [index] : []));
  return { names, defaults: new Set(defaults) };
}
