/** A token of JavaScript source. */
export interface Token {
  readonly kind: 'word' | 'literal' | 'punctuator';
  readonly text: string;
  /** Whether a new line begins between this token and the one before. */
  readonly onNewLine: boolean;
  /** Of an opening bracket: the index of the token that closes it. */
  close?: number;
  /** Of a closing bracket: the index of the token that opened it. */
  open?: number;
}

const SPACE = /(?:\s|\/\/.*|\/\*[^]*?\*\/)*/y;
/** Identifiers, keywords, private names and, without their point, numbers. */
const WORD = /#?[\p{ID_Continue}$\\]+/uy;
const STRING = /"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'/y;
const REGEXP = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[\p{ID_Continue}]*/uy;
const PUNCTUATOR = /\.\.\.|=>|\+\+|--|\?\.|[^]/uy;

/** Words after which an expression begins, so that a `/` starts a regular expression and a `{` an object. */
const OPERATORS = new Set(
  'return typeof instanceof in new delete void throw case do else yield await default extends'.split(' '),
);

/** Words whose parentheses are followed by a statement, where a `/` starts a regular expression. */
const STATEMENT_HEADS = new Set(['if', 'while', 'for', 'with']);

/**
 * Splits the source of a function or a class into tokens and pairs its brackets. Comments are left out; a string, a
 * template with all it holds, and a regular expression are one token each.
 *
 * It is no parser: where only a full one could tell a division from a regular expression, it takes the usual reading.
 * Source that does not end properly gives the tokens up to there.
 */
export function tokenize(source: string): Token[] {
  return new Scanner(source).scan(0).tokens;
}

/** Whether an operand ends with this token, so that what follows is an operator or a new statement. */
export function endsOperand(tokens: readonly Token[], index: number): boolean {
  const token = tokens[index];
  if (!token) return false;
  if (token.kind === 'literal') return true;
  if (token.kind === 'word') return !OPERATORS.has(token.text) || isProperty(tokens, index);
  if (token.text === ')') return !STATEMENT_HEADS.has(tokens[(token.open ?? 0) - 1]?.text ?? '');
  if (token.text === '}') return token.open !== undefined && opensObject(tokens, token.open);
  return [']', '++', '--', '.'].includes(token.text);
}

class Scanner {
  constructor(private readonly source: string) {}

  /** Reads from `position` to the end, or to a `}` that nothing in between opened. */
  scan(position: number): { tokens: Token[]; end: number } {
    const tokens: Token[] = [];
    const opened: number[] = [];
    let end = position;
    while (end < this.source.length) {
      const space = this.match(SPACE, end) ?? '';
      end += space.length;
      const text = this.next(end, tokens);
      if (text === undefined || (text === '}' && opened.length === 0)) break;
      end += text.length;
      const token: Token = { kind: kindOf(text), text, onNewLine: /[\n\r\u2028\u2029]/.test(space) };
      if (token.kind === 'punctuator') pair(token, tokens, opened);
      tokens.push(token);
    }
    return { tokens, end };
  }

  private next(position: number, before: readonly Token[]): string | undefined {
    if (this.source[position] === '`') return this.template(position);
    const literal = this.match(STRING, position);
    if (literal !== undefined) return literal;
    if (this.source[position] === '/' && !endsOperand(before, before.length - 1)) {
      const regexp = this.match(REGEXP, position);
      if (regexp !== undefined) return regexp;
    }
    return this.match(WORD, position) ?? this.match(PUNCTUATOR, position);
  }

  private template(start: number): string {
    let position = start + 1;
    while (position < this.source.length && this.source[position] !== '`') {
      if (this.source[position] === '\\') position += 2;
      else if (this.source.startsWith('${', position)) position = this.scan(position + 2).end + 1;
      else position += 1;
    }
    return this.source.slice(start, position + 1);
  }

  private match(pattern: RegExp, position: number): string | undefined {
    pattern.lastIndex = position;
    return pattern.exec(this.source)?.[0];
  }
}

function kindOf(text: string): Token['kind'] {
  if (/^["'`]/.test(text) || /^\/./.test(text)) return 'literal';
  return /^#?[\p{ID_Continue}$\\]/u.test(text) ? 'word' : 'punctuator';
}

function pair(token: Token, tokens: Token[], opened: number[]): void {
  if (/^[([{]$/.test(token.text)) {
    opened.push(tokens.length);
  } else if (/^[)\]}]$/.test(token.text)) {
    const open = opened.pop();
    const opener = open === undefined ? undefined : tokens[open];
    if (opener && open !== undefined) {
      token.open = open;
      opener.close = tokens.length;
    }
  }
}

function isProperty(tokens: readonly Token[], index: number): boolean {
  const before = tokens[index - 1]?.text;
  return before === '.' || before === '?.';
}

/** Whether a `{` begins an object: it stands where an operand is due, not a block or a function's body. */
function opensObject(tokens: readonly Token[], index: number): boolean {
  const before = tokens[index - 1];
  if (!before || endsOperand(tokens, index - 1)) return false;
  return before.kind === 'word'
    ? !['do', 'else'].includes(before.text)
    : !['=>', ')', '{', '}', ';'].includes(before.text);
}
