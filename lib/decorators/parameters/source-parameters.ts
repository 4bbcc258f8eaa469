import { endsOperand, type Token, tokenize } from './source-tokens.js';

/**
 * A function's parameters in the order of its source: their names, and undefined for a pattern such as `{ id }`. Ends
 * before a rest parameter, whose name means many arguments.
 */
export type ParameterList = readonly (string | undefined)[];

/**
 * Reads the parameters from what `Function.prototype.toString` gives for a method, a function or an arrow function.
 * Undefined for native code (bound functions and proxies show as such), for a class, and for source it cannot read.
 */
export function functionParameters(source: string): ParameterList | undefined {
  if (/\{\s*\[native code\]\s*\}\s*$/.test(source)) return undefined;
  const tokens = tokenize(source);
  if (tokens[0]?.text === 'class' && tokens[1]?.text !== '(') return undefined;
  const arrow = tokens[0]?.text === 'async' ? 2 : 1;
  for (const index of [1, arrow]) {
    if (tokens[index]?.text === '=>') return [tokens[index - 1]?.text];
  }
  let open = 0;
  // A computed name, `[key()](id) {}`, may hold parentheses of its own.
  while (open < tokens.length && textAt(tokens, open) !== '(') open = afterGroup(tokens, open);
  return open < tokens.length ? parametersFrom(tokens, open) : undefined;
}

/**
 * Finds a method in the source of its class and reads its parameters. Undefined where the source is no class, or has no
 * method written with this name: computed names are not evaluated.
 */
export function methodParameters(classSource: string, name: string, isStatic: boolean): ParameterList | undefined {
  const tokens = tokenize(classSource);
  const body = tokens.at(-1)?.open;
  if (tokens[0]?.text !== 'class' || body === undefined) return undefined;
  let found: ParameterList | undefined;
  for (let index = body + 1; index < tokens.length - 1;) {
    const member = readMember(tokens, index);
    // As in the class itself, the last one of a name counts.
    if (member.parameters && member.name === name && member.isStatic === isStatic) found = member.parameters;
    index = member.end;
  }
  return found;
}

interface Member {
  readonly name: string | undefined;
  readonly isStatic: boolean;
  /** Undefined for a field or a static block. */
  readonly parameters?: ParameterList;
  /** The index of the token after it. */
  readonly end: number;
}

const MODIFIERS = new Set(['static', 'async', 'get', 'set', 'accessor', '*']);

/** What follows a name; so a word before it is the name and no modifier. */
const AFTER_NAME = new Set(['(', '=', ';', '}']);

function readMember(tokens: readonly Token[], start: number): Member {
  let isStatic = false;
  let index = start;
  while (MODIFIERS.has(textAt(tokens, index)) && !AFTER_NAME.has(textAt(tokens, index + 1))) {
    isStatic ||= textAt(tokens, index) === 'static';
    index += 1;
  }
  const name = memberName(tokens, index);
  const next = afterGroup(tokens, index);
  if (textAt(tokens, next) !== '(') return { name, isStatic, end: afterField(tokens, index) };
  const body = afterGroup(tokens, next);
  return { name, isStatic, parameters: parametersFrom(tokens, next), end: afterGroup(tokens, body) };
}

function memberName(tokens: readonly Token[], index: number): string | undefined {
  const token = tokens[index];
  if (token?.kind === 'word') return token.text;
  if (token?.kind === 'literal') return token.text.slice(1, -1);
  // ['buy'](id) {}
  const only = tokens[index + 1];
  return token?.close === index + 2 && only?.kind === 'literal' ? only.text.slice(1, -1) : undefined;
}

/** The end of a field, an empty statement or a static block, with its semicolon or without. */
function afterField(tokens: readonly Token[], start: number): number {
  if (textAt(tokens, start) === '{') return afterGroup(tokens, start);
  let index = start;
  while (index < tokens.length - 1 && textAt(tokens, index) !== ';') {
    index = afterGroup(tokens, index);
    if (endsWithoutSemicolon(tokens, index)) return index;
  }
  return Math.min(index + 1, tokens.length - 1);
}

function endsWithoutSemicolon(tokens: readonly Token[], index: number): boolean {
  const token = tokens[index];
  if (!token?.onNewLine || (token.kind === 'punctuator' && token.text !== '@')) return false;
  if (token.text.startsWith('`') || token.text === 'in' || token.text === 'instanceof') return false;
  // After an operator the expression goes on; a `}` ends a function as well as an object.
  return endsOperand(tokens, index - 1) || textAt(tokens, index - 1) === '}';
}

function parametersFrom(tokens: readonly Token[], open: number): ParameterList {
  const close = tokens[open]?.close ?? open;
  const names: (string | undefined)[] = [];
  for (let index = open + 1; index < close && textAt(tokens, index) !== '...'; index += 1) {
    names.push(tokens[index]?.kind === 'word' ? textAt(tokens, index) : undefined);
    while (index < close && textAt(tokens, index) !== ',') index = afterGroup(tokens, index);
  }
  return names;
}

/** The index after a token, or after the bracket that closes it. */
function afterGroup(tokens: readonly Token[], index: number): number {
  return (tokens[index]?.close ?? index) + 1;
}

function textAt(tokens: readonly Token[], index: number): string {
  return tokens[index]?.text ?? '';
}
