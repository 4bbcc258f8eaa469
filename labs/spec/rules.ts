// The rules of token.qnt: each is one line below a comment with ⚠.
import { readdirSync, readFileSync } from 'node:fs';
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

/** What the run of a rule in `rules.qnt` shows. */
export interface RuleRun {
  /** The invariant that it expects in the end. */
  readonly invariant: string;
  /** How many steps it takes with the rule, or undefined if it fails. */
  readonly steps: number | undefined;
}

/** Returns the runs of these rules. Each must pass. */
export async function runsOf(rules: readonly Rule[]): Promise<readonly RuleRun[]> {
  const token = readFileSync(join(HERE, 'token.qnt'), 'utf8');
  return tested(token, rules, (output, folder) => {
    const traces = readdirSync(folder);
    return rules.map((rule) => {
      const file = traces.find((name) => name.startsWith(`run ${nameOf(rule)} `));
      const isPassed = output.includes(`ok ${nameOf(rule)} passed`);
      if (file === undefined || !isPassed) return { invariant: invariantOf(rule), steps: undefined };
      const { states } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as {
        readonly states: readonly unknown[];
      };
      return { invariant: invariantOf(rule), steps: states.length - 1 };
    });
  });
}

/** Returns whether the run of a rule breaks its invariant without the rule. */
export async function breaksWithout(rule: Rule): Promise<boolean> {
  const lines = readFileSync(join(HERE, 'token.qnt'), 'utf8').split('\n');
  // QNT508: what a run expects is false. A step that cannot be taken has another code.
  return tested(lines.with(rule.line - 1, rule.without).join('\n'), [rule], (output) => {
    return output.includes('1 failed') && output.includes('QNT508');
  });
}

/** Calls `use` with what Quint prints for the runs of these rules, and the folder with their traces. */
function tested<T>(token: string, rules: readonly Rule[], use: (output: string, folder: string) => T): Promise<T> {
  const runs = readFileSync(join(HERE, 'rules.qnt'), 'utf8');
  return inFolder({ 'token.qnt': token, 'rules.qnt': runs }, async (folder) => {
    const args = ['--backend', 'typescript', '--max-samples', '1', '--main', 'rules'];
    args.push('--match', `^(${rules.map((rule) => nameOf(rule)).join('|')})$`);
    args.push('--out-itf', join(folder, 'run {test} {seq}.json'));
    const { output } = await quint('test', join(folder, 'rules.qnt'), ...args);
    return use(output, folder);
  });
}

function invariantOf(rule: Rule): string {
  const [, body = ''] = readFileSync(join(HERE, 'rules.qnt'), 'utf8').split(`  run ${nameOf(rule)} =`);
  const invariant = /\.expect\((\w+)\)/.exec(body)?.[1];
  if (invariant === undefined) throw new Error(`rules.qnt has no run ${nameOf(rule)} that expects an invariant`);
  return invariant;
}

function nameOf({ id }: Rule): string {
  return id.replace('.', '_');
}
