import { LockKeyError, type LockKeyPlaceholder } from '../common/errors.js';
import { kindOf, shortened } from '../common/format-value.js';
import { ambiguity, encodeValue, isList, readList, separates } from './key-values.js';
import { braceProblem, forgottenValue } from './resource-key.js';

export { encodeValue, resource, type KeyValue } from './key-values.js';

/** One `<…>` of a template. */
export interface Placeholder {
  /** As written, with its angle brackets: `<user.id>`. */
  readonly text: string;
  /** True for `<...ids>`, which gives one resource for each element of an array. */
  readonly spread: boolean;
  /** The parameter: its name, or its index if the template gives a number. */
  readonly parameter: string | number;
  /** The properties to read from there. Often none. */
  readonly path: readonly string[];
}

/** A parsed template. It has one more literal than placeholders: before, between and after them. */
export interface KeyTemplate {
  /** The source, shortened for errors. */
  readonly shown: string;
  readonly literals: readonly string[];
  readonly placeholders: readonly Placeholder[];
}

/**
 * Returns the resource for the arguments of one call, or a list of resources if a placeholder is spread. Throws
 * `LockKeyError` if a value cannot form a safe key.
 */
export type RenderResource = (args: readonly unknown[]) => string | readonly string[];

const NAME = String.raw`[\p{ID_Start}$_][\p{ID_Continue}$-]*`;
const INDEX = String.raw`(?:0|[1-9]\d*)`;
const PARAMETER_NAME = new RegExp(`^${NAME}$`, 'u');
const PATH = new RegExp(`^(?:${NAME}|${INDEX})(?:\\.(?:${NAME}|${INDEX}))*$`, 'u');

/** Returns whether a placeholder can use this as the name of a parameter. */
export function isParameterName(name: unknown): name is string {
  return typeof name === 'string' && PARAMETER_NAME.test(name);
}

const SPREAD = '...';

/**
 * Parses a template: `goods:<id>`, `<user.id>`, `<0>`, `<1.path>`, `<...ids>`. Braces are Redis hash tags and stay as
 * they are.
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
  const forgotten = forgottenValue(literals.join('…').replaceAll('/', ':'));
  if (forgotten !== undefined) fail(`has '${forgotten}' for a value. A placeholder is written <id>.`);
  const braces = braceProblem(literals.join('…'));
  if (braces) fail(`has ${braces}. Braces are Redis hash tags, one pair at most; a placeholder is written <id>.`);
  checkSeparators(literals, placeholders, fail);
  checkSpreads(placeholders, fail);
  return { shown: shortened(template), literals, placeholders };
}

/**
 * Compiles a template into a function for many calls.
 *
 * @param indexes the index of the parameter for each placeholder.
 * @param where the method for errors, `GoodsController.buy`.
 */
export function compileTemplate(template: KeyTemplate, indexes: readonly number[], where: string): RenderResource {
  const [start = '', ...literals] = template.literals;
  const parts = template.placeholders.map(({ text, path, spread }, nth): Part => {
    const describe = () => `${where}: ${text} in '${template.shown}'`;
    return { placeholder: { text, index: indexes[nth], path, spread }, describe, literal: literals[nth] ?? '' };
  });
  const render = (values: readonly unknown[]): string => {
    let resource = start;
    for (const [nth, { describe, placeholder, literal }] of parts.entries())
      resource += encodeValue(values[nth], describe, placeholder) + literal;
    return resource;
  };
  const valuesOf = (args: readonly unknown[]): unknown[] =>
    parts.map((part) => follow(args[part.placeholder.index], part));
  const at = parts.findIndex(({ placeholder }) => placeholder.spread);
  if (at === -1) return (args) => render(valuesOf(args));
  const { describe, placeholder } = parts[at];
  return (args) => {
    const values = valuesOf(args);
    const value = values[at];
    // `?ids=1` is a string and `?ids=1&ids=2` an array.
    const list = isList(value) ? readList(value, describe, placeholder) : [value];
    return list.map((item) => render(values.with(at, item)));
  };
}

/** A placeholder that is bound to a parameter, and the literal after it. */
interface Part {
  readonly placeholder: LockKeyPlaceholder;
  readonly describe: () => string;
  readonly literal: string;
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
  const spread = text.startsWith(SPREAD);
  const written = spread ? text.slice(SPREAD.length) : text;
  if (!PATH.test(written)) {
    fail(
      `has '<${shortened(text)}>' at position ${position}, which is not a path. Write a parameter's name or index, ` +
        `then properties after dots, without spaces: <id>, <0>, <user.id>, <items.0.id>, <...ids>.`,
    );
  }
  const [name = '', ...path] = written.split('.');
  const parameter = isParameterName(name) ? name : Number(name);
  return { text: `<${shortened(text)}>`, spread, parameter, path };
}

/** Refuses a second spread placeholder, with which the caller of the method could name up to a million resources. */
function checkSpreads(placeholders: readonly Placeholder[], fail: Fail): void {
  const [first, second] = placeholders.filter(({ spread }) => spread);
  if (second) fail(`has ${first.text} and ${second.text}. One placeholder of a template may be spread.`);
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

function follow(start: unknown, { placeholder, describe }: Part): unknown {
  let value = start;
  for (const property of placeholder.path) {
    if (value === undefined || value === null) {
      const problem = `cannot be read: what should have '${property}' is ${kindOf(value)}`;
      throw new LockKeyError(`${describe()} ${problem}.`, { placeholder });
    }
    value = (value as Record<string, unknown>)[property];
  }
  return value;
}
