// The rules of token.qnt: each is one line below a comment with ⚠.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { HERE, inFolder } from './quint.js';

/** A rule of the specification. */
export interface Rule {
  readonly id: string;
  readonly words: string;
  /** The number of its line, from 1. */
  readonly line: number;
  /** The line itself, and what stands there without the rule. */
  readonly formula: string;
  readonly without: string;
}

const HEAD = /^\s*\/\/\/? ⚠ ([\w.]+): (.*)$/;
/** A rule behind its line, which goes without it. */
const GUARD = /^\s*(\S.*?) \/\/ ⚠ ([\w.]+): (.*)$/;
const COMMENT = /^\s*\/\//;

/** Returns the rules of a specification, in its order. */
export function rulesOf(text: string): readonly Rule[] {
  const lines = text.split('\n');
  return lines.flatMap((head, i) => {
    const [, formula, guard, why] = GUARD.exec(head) ?? [];
    if (guard !== undefined) return [{ id: guard, words: why, line: i + 1, formula, without: '' }];
    const [, id, words] = HEAD.exec(head) ?? [];
    if (id === undefined) return [];
    const at = lines.findIndex((line, j) => j > i && !COMMENT.test(line));
    const more = lines.slice(i + 1, at).map((line) => line.replace(/^\s*\/\/\/? /, ''));
    const [code, without = ''] = lines[at].trim().split(/ \/\/ without: ?/);
    return [{ id, words: [words, ...more].join(' '), line: at + 1, formula: code, without }];
  });
}

/** Calls `use` with the file that explores the specification without a rule, with faults of one kind. */
export function withoutRule<T>({ line, without }: Rule, kind: number, use: (file: string) => Promise<T>): Promise<T> {
  const lines = readFileSync(join(HERE, 'token.qnt'), 'utf8').split('\n');
  const text = lines.with(line - 1, without).join('\n');
  const runs = readFileSync(join(HERE, 'explore.qnt'), 'utf8').replace('KINDS = 0.to(10)', `KINDS = Set(${kind})`);
  return inFolder({ 'token.qnt': text, 'explore.qnt': runs }, (folder) => use(join(folder, 'explore.qnt')));
}
