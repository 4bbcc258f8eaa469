import { LockKeyError, messageOf } from '../errors.js';
import { kindOf, shortened } from '../format-value.js';
import { ambiguity, encodeValue, separates } from './key-values.js';
import { isList, readList } from './read-list.js';
import { braceProblem } from './resource-key.js';

export { encodeValue, resource, type KeyValue } from './key-values.js';

/** One `<…>` of a template. */
export interface Placeholder {
  /** As written, with its angle brackets: `<user.id>`. */
  readonly text: string;
  /** The parameter: its name, or its index if the template gives a number. */
  readonly parameter: string | number;
  /** The properties to read from there. Often none. */
  readonly path: readonly string[];
}

/** A parsed template. It has one literal more than placeholders: before, between and after them. */
export interface KeyTemplate {
  /** The source, shortened for errors. */
  readonly shown: string;
  readonly literals: readonly string[];
  readonly placeholders: readonly Placeholder[];
}

/**
 * Returns the resource for the arguments of one call, or several resources if one value is an array. Throws
 * `LockKeyError` if a value makes no safe key.
 */
export type RenderResource = (args: readonly unknown[]) => string | readonly string[];

const NONE: ReadonlySet<number> = new Set();

const NAME = String.raw`[\p{ID_Start}$_][\p{ID_Continue}$-]*`;
const INDEX = String.raw`(?:0|[1-9]\d*)`;
const PARAMETER_NAME = new RegExp(`^${NAME}$`, 'u');
const PATH = new RegExp(`^(?:${NAME}|${INDEX})(?:\\.(?:${NAME}|${INDEX}))*$`, 'u');

/** Returns whether a placeholder can use this as the name of a parameter. */
export function isParameterName(name: unknown): name is string {
  return typeof name === 'string' && PARAMETER_NAME.test(name);
}

/**
 * Parses a template: `goods:<id>`, `<user.id>`, `<0>`, `<1.path>`. Braces are Redis hash tags and stay as they are.
 *
 * @param where the method for errors, `GoodsController.buy`.
 * @throws {LockKeyError} that names the problem, its position, and how to write the template instead.
 */
export function parseTemplate(template: string, where: string): KeyTemplate {
  const fail = (problem: string): never => {
    throw new LockKeyError(`${where}: template '${shortened(template)}' ${problem}`);
  };
  if (typeof template !== 'string')
    throw new LockKeyError(`${where}: a template is a string, not ${kindOf(template)}.`);
  if (template === '') fail(`is empty. Name what is locked: 'goods:<id>'.`);
  // The group keeps what is between the angle brackets, so that literals and placeholders alternate.
  const pieces = template.split(/<([^<>]*)>/);
  const literals = pieces.filter((_, index) => index % 2 === 0);
  const placeholders: Placeholder[] = [];
  let position = 0;
  for (const [index, piece] of pieces.entries()) {
    if (index % 2 === 0) {
      checkLiteral(piece, position, fail);
      position += piece.length;
    } else {
      placeholders.push(parsePlaceholder(piece, position, fail));
      position += piece.length + 2;
    }
  }
  const braces = braceProblem(literals.join('…'));
  if (braces) fail(`has ${braces}. Braces are Redis hash tags, one pair at most; a placeholder is written <id>.`);
  checkSeparators(literals, placeholders, fail);
  return { shown: shortened(template), literals, placeholders };
}

/**
 * Compiles a template into a function for many calls.
 *
 * @param bindings the index of the parameter for each name of the template.
 * @param where the method for errors, `GoodsController.buy`.
 * @param scalars the parameters that are declared `string`, `number` or `boolean`. An array there throws, so that a
 * client cannot lock several resources with one request.
 * @throws {LockKeyError} at once if a name has no binding.
 */
export function compileTemplate(
  template: KeyTemplate,
  bindings: ReadonlyMap<string, number>,
  where: string,
  scalars: ReadonlySet<number> = NONE,
): RenderResource {
  const [start = '', ...literals] = template.literals;
  const parts = template.placeholders.map((placeholder, index): Part => {
    const { text, parameter, path } = placeholder;
    const from = typeof parameter === 'number' ? parameter : bindings.get(parameter);
    if (from === undefined)
      throw new LockKeyError(`${where}: ${text} in '${template.shown}' is bound to no parameter.`);
    const describe = () => `${where}: ${text} in '${template.shown}'`;
    const mayBeList = path.length > 0 || !scalars.has(from);
    return { from, path, describe, literal: literals[index] ?? '', mayBeList };
  });
  const render = (values: readonly unknown[]): string => {
    let text = start;
    for (const [index, { describe, literal }] of parts.entries())
      text += encodeValue(values[index], describe) + literal;
    return text;
  };
  return (args) => {
    const values = parts.map(({ from, path, describe }) =>
      path.length === 0 ? args[from] : follow(args[from], path, describe),
    );
    const at = indexOfList(values, parts);
    if (at === -1) return render(values);
    const list = readList(values[at] as readonly unknown[], parts[at].describe);
    return list.map((item) => render(values.with(at, item)));
  };
}

/** Returns the index of the value that is an array, -1 if there is none. */
function indexOfList(values: readonly unknown[], parts: readonly Part[]): number {
  const counts = (value: unknown, index: number): boolean => parts[index].mayBeList && isList(value);
  const at = values.findIndex(counts);
  if (at === -1) return at;
  const last = values.findLastIndex(counts);
  if (last === at) return at;
  throw new LockKeyError(`${parts[last].describe()} is an array, too: one in a template may be.`);
}

/** A placeholder that is bound to a parameter, and the literal behind it. */
interface Part {
  readonly from: number;
  readonly path: readonly string[];
  readonly describe: () => string;
  readonly literal: string;
  readonly mayBeList: boolean;
}

type Fail = (problem: string) => never;

function checkLiteral(literal: string, position: number, fail: Fail): void {
  const match = /[<>|\s\p{Cc}\p{Cs}]|\$\{/u.exec(literal);
  if (!match) return;
  const at = `at position ${position + match.index}`;
  const found = match[0];
  if (found === '<') fail(`has a '<' ${at} that is never closed. A placeholder is written <id>.`);
  if (found === '>') fail(`has a '>' ${at} without a '<' before it. A placeholder is written <id>.`);
  if (found === '|') fail(`has a '|' ${at}, which ends the lock's own helper keys. Separate with ':'.`);
  if (found === '${') fail(`has '\${' ${at}, which nothing fills in. A placeholder is written <id>.`);
  fail(`has ${JSON.stringify(found)} ${at}: no whitespace or control characters. Separate with ':'.`);
}

function parsePlaceholder(text: string, position: number, fail: Fail): Placeholder {
  if (text === '') fail(`has an empty '<>' at position ${position}. Name a parameter, <id>, or give its index, <0>.`);
  if (!PATH.test(text)) {
    fail(
      `has '<${shortened(text)}>' at position ${position}, which is no path. Write a parameter's name or index, ` +
        `then properties after dots, without spaces: <id>, <0>, <user.id>, <items.0.id>.`,
    );
  }
  const [parameter = '', ...path] = text.split('.');
  return { text: `<${shortened(text)}>`, parameter: isParameterName(parameter) ? parameter : Number(parameter), path };
}

/**
 * Refuses placeholders that are not separated: `<a><b>` gives one resource for ('1', '23') and for ('12', '3'), and
 * `<a>-<b>` gives one for ('1-2', '3') and for ('1', '2-3').
 */
function checkSeparators(literals: readonly string[], placeholders: readonly Placeholder[], fail: Fail): void {
  for (const [index, right] of placeholders.entries()) {
    const left = placeholders[index - 1];
    const literal = literals[index] ?? '';
    if (left && !separates(literal)) fail(`has ${left.text} and ${right.text} with ${ambiguity(literal)}`);
  }
}

function follow(start: unknown, path: readonly string[], describe: () => string): unknown {
  let value = start;
  for (const property of path) {
    if (value === undefined || value === null) {
      throw new LockKeyError(`${describe()} cannot be read: what should have '${property}' is ${kindOf(value)}.`);
    }
    value = propertyOf(value, property, describe);
  }
  return value;
}

function propertyOf(value: object, property: string, describe: () => string): unknown {
  try {
    return (value as Record<string, unknown>)[property];
  } catch (cause) {
    throw new LockKeyError(`${describe()} cannot be read: its '${property}' failed (${messageOf(cause)}).`, { cause });
  }
}
