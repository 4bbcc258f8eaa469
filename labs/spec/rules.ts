// The rules of token.qnt: each is one line below a comment with ⚠.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { HERE, inFolder, quint } from './quint.js';

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

/** A run of `rules.qnt`. */
export interface RuleRun {
  /** The invariant that it expects in the end. */
  readonly invariant: string;
  readonly steps: number;
  /** Whether it passes with the rule, and breaks the invariant without it. */
  readonly passes: boolean;
  readonly breaks: boolean;
}

/** Runs what `rules.qnt` has for a rule, with the rule and without it. */
export async function runOf({ id, line, without }: Rule): Promise<RuleRun> {
  const token = readFileSync(join(HERE, 'token.qnt'), 'utf8');
  const runs = readFileSync(join(HERE, 'rules.qnt'), 'utf8');
  const name = id.replace('.', '_');
  const [, body] = runs.split(`  run ${name} =`);
  const invariant = /\.expect\((\w+)\)/.exec(body ?? '')?.[1];
  if (invariant === undefined) throw new Error(`rules.qnt has no run ${name} that expects an invariant`);
  const tested = (text: string): Promise<{ readonly output: string; readonly steps: number }> => {
    return inFolder({ 'token.qnt': text, 'rules.qnt': runs }, async (folder) => {
      const args = ['--backend', 'typescript', '--max-samples', '1', '--main', 'rules', '--match', `^${name}$`];
      const { output } = await quint('test', join(folder, 'rules.qnt'), ...args, '--out-itf', join(folder, 'run.json'));
      const trace = join(folder, 'run.json');
      if (!existsSync(trace)) return { output, steps: 0 };
      const { states } = JSON.parse(readFileSync(trace, 'utf8')) as { readonly states: readonly unknown[] };
      return { output, steps: states.length - 1 };
    });
  };
  const [whole, broken] = [
    await tested(token),
    await tested(
      token
        .split('\n')
        .with(line - 1, without)
        .join('\n'),
    ),
  ];
  // QNT508: what a run expects is false. A step that cannot be taken has another code.
  return {
    invariant,
    steps: whole.steps,
    passes: /1 passing/.test(whole.output) && !/\d failed/.test(whole.output),
    breaks: /1 failed/.test(broken.output) && broken.output.includes('QNT508'),
  };
}
