import { type Change, type Mutant, named, neighboursOf } from './mutants.js';

const TOKEN =
  /(?<comment>--\[(?<c>=*)\[[\s\S]*?\]\k<c>\]|--[^\n]*)|(?<text>"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*')|(?<name>[A-Za-z_]\w*)|(?<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?<symbol>\.\.\.|\.\.|[=~<>]=|[^\s\w])/g;
const OPERATORS: Readonly<Record<string, readonly string[]>> = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '==': ['~='],
  '~=': ['=='],
  '+': ['-'],
  and: ['or'],
  or: ['and'],
  not: [''],
};
/** A line that is a whole statement: a call or an assignment. */
const STATEMENT =
  /^(?!local\b|if\b|for\b|while\b|return\b|else|end\b|function\b|table\.insert)[a-zA-Z_][\w.]*(?:\(.*\)|.* = .*)$/;
const CONDITION = /^(?:if|elseif|while) (?<condition>.*) (?:then|do)$/;

/** Returns all mutants of a Lua script. */
export function luaMutantsOf(file: string, source: string): readonly Mutant[] {
  // Of the same length, so that positions stay what they are.
  const text = source.replaceAll(TOKEN, (token) => (token.startsWith('--') ? token.replaceAll(/[^\n]/g, ' ') : token));
  const changes: Change[] = [];
  for (const { 0: token, index, groups } of text.matchAll(TOKEN)) {
    const at = { start: index, end: index + token.length };
    const others = groups?.number === undefined ? operatorsOf(token) : neighboursOf(token);
    changes.push(...others.map((replacement) => ({ ...at, replacement })));
    if (token === 'max' || token === 'min') changes.push(...argumentsOf(text, index));
  }
  for (const { 0: line, index } of text.matchAll(/^.*$/gm)) {
    const statement = line.trim();
    const start = index + line.indexOf(statement);
    const end = start + statement.length;
    const condition = CONDITION.exec(statement)?.groups?.condition;
    if (STATEMENT.test(statement)) changes.push({ start, end, replacement: '', isStatement: true });
    if (condition === undefined) continue;
    const from = start + statement.indexOf(condition);
    const at = { start: from, end: from + condition.length };
    // A negated condition swaps the branches.
    changes.push({ ...at, replacement: `not (${condition})` }, { ...at, replacement: 'false' });
    if (!statement.startsWith('while')) changes.push({ ...at, replacement: 'true' });
  }
  return named(file, source, changes);
}

function operatorsOf(token: string): readonly string[] {
  return Object.hasOwn(OPERATORS, token) ? OPERATORS[token] : [];
}

/** Returns a change for each argument of the call of `math.max` or `math.min` at this place, which it becomes. */
function argumentsOf(text: string, name: number): readonly Change[] {
  const start = name - 'math.'.length;
  const open = text.indexOf('(', name);
  const commas: number[] = [];
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    if (text[i] === '(') depth += 1;
    if (text[i] === ',' && depth === 1) commas.push(i);
    if (text[i] !== ')' || --depth > 0) continue;
    const bounds = [open, ...commas, i];
    return bounds.slice(1).map((end, n) => ({
      start,
      end: i + 1,
      replacement: `(${text.slice(bounds[n] + 1, end).trim()})`,
    }));
  }
  return [];
}

/** Returns how many lines of a script have code. */
export function linesOfLua(source: string): number {
  const code = source.replaceAll(TOKEN, (token) => (token.startsWith('--') ? token.replaceAll(/[^\n]/g, '') : token));
  return code.split('\n').filter((line) => line.trim() !== '').length;
}
