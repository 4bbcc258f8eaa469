import type { Found } from './quint.js';
import type { Rule, RuleRun } from './rules.js';

/** How many traces the specification accepts. */
export interface TraceCount {
  readonly name: string;
  readonly traces: number;
  readonly events: number;
  readonly accepted: number;
  /** How many different requests ran on a real Redis, and whether it did the same. */
  readonly exchanges?: number;
  readonly isSame?: boolean;
}

/** What the run of a rule shows. */
export interface Removal {
  readonly rule: Rule;
  readonly run: RuleRun;
  /** Whether the run breaks its invariant without the rule. */
  readonly breaks: boolean;
}

/** What `npm run spec` has found. */
export interface Results {
  readonly head: { readonly date: string; readonly commit: string; readonly node: string; readonly quint: string };
  readonly seconds: Readonly<Record<'typecheck' | 'explore' | 'traces' | 'broken' | 'removals', number>>;
  readonly samples: number;
  readonly steps: number;
  readonly violation: Found | undefined;
  readonly traces: TraceCount;
  readonly brokenTraces: readonly TraceCount[];
  readonly removed: readonly Removal[];
}

/** Returns whether a run shows what its rule is for. */
export function isShown({ run, breaks }: Removal): boolean {
  return run.steps !== undefined && breaks;
}

/** Returns RESULTS.md. */
export function resultsOf(results: Results): string {
  const { head, seconds, samples, steps, violation, traces, brokenTraces, removed } = results;
  return `# What Quint has checked

\`npm run spec\` writes this file. Nobody edits it by hand. ${head.date}, commit ${head.commit}, Quint ${head.quint}, Node
${head.node}.

## The specification

${count(samples)} random runs of up to ${steps} steps: ${violation === undefined ? 'all invariants hold in all of them' : `**${named(violation)} broken after ${violation.steps} steps**`}. ${seconds.explore} s.

## Traces of the engine

Each trace is a random run of the real engine: up to three instances, with all faults that the model checker knows. Its
server is the table of \`lib/stores/memory\`, and each different request is repeated by the real scripts on a real Redis.
The specification accepts a trace if it can take each step, and has the same state afterwards: the holder, the end of
its lease, the last token, the queue, each instance's hold and deadline, and what is on its way.

| engine | traces | events | accepted | rejected | requests on Redis |
| --- | --- | --- | --- | --- | --- |
${[traces, ...brokenTraces].map(rowOf).join('\n')}

${seconds.traces} s and ${seconds.broken} s. \`test/support/model-checker/broken.ts\` has the broken engines. A trace is
rejected only if the broken rule mattered in it. Without a safety net an instance waits for longer than it should, and
no step of that is wrong: \`progress\` is for that, in the table below (instance.5a).

## The rules, taken out one by one

\`rules.qnt\` has a run for each rule. With the rule, an invariant holds at the end of the run. Then the line of
\`token.qnt\` is replaced with what the comment \`without:\` says, or goes. Now the same run breaks the invariant.
${seconds.removals} s.

| rule | line | broken invariant | steps of the run |
| --- | --- | --- | --- |
${removed.map(removalOf).join('\n')}
`;
}

function rowOf({ name, traces, events, accepted, exchanges, isSame }: TraceCount): string {
  const redis =
    exchanges === undefined ? '' : `${count(exchanges)}, ${isSame === true ? 'the same' : '**not the same**'}`;
  return `| ${name} | ${count(traces)} | ${count(events)} | ${count(accepted)} | ${count(traces - accepted)} | ${redis} |`;
}

function removalOf(removal: Removal): string {
  const { rule, run } = removal;
  const broken = isShown(removal) ? `\`${run.invariant}\`` : '**the run does not show it**';
  const formula = rule.formula.replaceAll('|', '\\|');
  return `| **${rule.id}** ${rule.words} \`${formula}\` | ${rule.line} | ${broken} | ${run.steps ?? ''} |`;
}

function named({ invariants }: Found): string {
  return invariants.map((name) => `\`${name}\``).join(', ');
}

function count(number: number): string {
  return number.toLocaleString('en');
}
