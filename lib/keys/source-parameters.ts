import { createRequire } from 'node:module';
import type { Class, Expression, MethodDefinition, Options, Pattern } from 'acorn';

/** The parameters of a function as written in its source. */
export interface ParameterList {
  /**
   * The names in source order, `undefined` for a pattern such as `{ id }`. The list ends before a rest parameter,
   * because its name stands for several arguments.
   */
  readonly names: readonly (string | undefined)[];
  /** The path of each name in a pattern: `0.id` for the `id` of a first parameter `{ id }`. */
  readonly destructured: ReadonlyMap<string, string>;
  /** The paths with a default value: `1` for a parameter `region = 'eu'`, `0.id` for a pattern `{ id = 1 }`. */
  readonly defaults: ReadonlySet<string>;
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
  const [method] = expression === undefined ? methodsOf(parseClass(`class {${source}\n}`)) : [];
  return method && parametersOf(method.value.params);
}

/**
 * Returns the parameters of a method as written in its class.
 *
 * @returns `undefined` if the class has no such method. A computed name is found only if it is a literal.
 */
export function methodParameters(parsed: Class, name: string, isStatic: boolean): ParameterList | undefined {
  // The last method with a name counts, as in the class itself.
  const method = methodsOf(parsed).findLast((each) => each.static === isStatic && nameOf(each) === name);
  return method && parametersOf(method.value.params);
}

/** Parses the source of a class. Returns `undefined` for everything else, and for source that cannot be parsed. */
export function parseClass(source: string): Class | undefined {
  const expression = parseExpression(source);
  return expression?.type === 'ClassExpression' ? expression : undefined;
}

/** Whether the class has a method whose name is known only at run time. */
export function hasComputedMethods(parsed: Class): boolean {
  return methodsOf(parsed).some((method) => method.computed && nameOf(method) === undefined);
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

function methodsOf(parsed: Class | undefined): MethodDefinition[] {
  return (parsed?.body.body ?? []).filter((member) => member.type === 'MethodDefinition');
}

function nameOf({ key, computed }: MethodDefinition): string | undefined {
  if (key.type === 'Literal') return String(key.value);
  if (key.type === 'TemplateLiteral' && key.expressions.length === 0) return key.quasis[0].value.cooked ?? undefined;
  return key.type === 'Identifier' && !computed ? key.name : undefined;
}

function parametersOf(params: readonly Pattern[]): ParameterList {
  const named = params.at(-1)?.type === 'RestElement' ? params.slice(0, -1) : params;
  const names = named.map((param) => {
    const target = withoutDefault(param);
    return target.type === 'Identifier' ? target.name : undefined;
  });
  const parts = named.flatMap((param, index) => [...partsOf(param, [index])]);
  return {
    names,
    destructured: new Map(
      parts.flatMap(({ name, path }) => (name === undefined || path.length === 1 ? [] : [[name, path.join('.')]])),
    ),
    defaults: new Set(parts.filter(({ hasDefault }) => hasDefault).map(({ path }) => path.join('.'))),
  };
}

function withoutDefault(pattern: Pattern): Pattern {
  return pattern.type === 'AssignmentPattern' ? pattern.left : pattern;
}

/** A parameter, or a part of one, that a path can reach. */
interface Part {
  /** Undefined for a pattern. */
  readonly name: string | undefined;
  readonly path: readonly (string | number)[];
  readonly hasDefault: boolean;
}

/** Yields a parameter and the parts of its pattern. */
function* partsOf(pattern: Pattern, path: Part['path']): Generator<Part> {
  const target = withoutDefault(pattern);
  const name = target.type === 'Identifier' ? target.name : undefined;
  yield { name, path, hasDefault: target !== pattern };
  if (target.type === 'ArrayPattern') {
    for (const [index, element] of target.elements.entries()) {
      if (element !== null) yield* partsOf(element, [...path, index]);
    }
  }
  if (target.type !== 'ObjectPattern') return;
  for (const property of target.properties) {
    // A rest element has no path, and neither does a property whose name is known only at run time.
    if (property.type !== 'Property' || property.computed || property.key.type !== 'Identifier') continue;
    yield* partsOf(property.value, [...path, property.key.name]);
  }
}
