import { type Found, hex } from './quint.js';
import type { Rule } from './rules.js';

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

/** What came of a specification without a rule. */
export interface Removal {
  readonly rule: Rule;
  /** The kind of faults in these runs. */
  readonly kind: number;
  readonly found: Found | undefined;
  /** How many random runs looked for it. */
  readonly samples: number;
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

/** Why no invariant breaks without a rule. */
export const NOTHING: Readonly<Record<string, string>> = {};

/** The kinds of faults of `explore.qnt`. */
const FAULTS: readonly string[] = [
  'all',
  'crashes',
  'lost subscriptions',
  'lost connections',
  'callers who leave',
  'lost messages',
  'repeated messages',
  'releases by force',
  'failovers',
  'forged messages',
  'lost requests, restarts without data',
];

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

The line of \`token.qnt\` is replaced by what the comment \`without:\` says, or goes. Quint then runs it from the seed.
The runs have faults of that kind only, at most six. ${seconds.removals} s.

| rule | line | broken invariant | steps | seed | faults |
| --- | --- | --- | --- | --- | --- |
${removed.map(removalOf).join('\n')}
`;
}

function rowOf({ name, traces, events, accepted, exchanges, isSame }: TraceCount): string {
  const redis =
    exchanges === undefined ? '' : `${count(exchanges)}, ${isSame === true ? 'the same' : '**not the same**'}`;
  return `| ${name} | ${count(traces)} | ${count(events)} | ${count(accepted)} | ${count(traces - accepted)} | ${redis} |`;
}

function removalOf({ rule, kind, found, samples }: Removal): string {
  const words = `**${rule.id}** ${rule.words} \`${rule.formula.replaceAll('|', '\\|')}\``;
  if (found === undefined)
    return `| ${words} | ${rule.line} | none in ${count(samples)} runs. ${NOTHING[rule.id] ?? ''} | | | ${FAULTS[kind]} |`;
  const { steps, seed } = found;
  return `| ${words} | ${rule.line} | ${named(found)} | ${steps} | \`${hex(seed)}\` | ${FAULTS[kind]} |`;
}

function named({ invariants }: Found): string {
  return invariants.map((name) => `\`${name}\``).join(', ');
}

function count(number: number): string {
  return number.toLocaleString('en');
}
