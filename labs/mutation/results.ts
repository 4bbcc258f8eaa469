import { markdownTable } from '../../test/support/markdown-table.js';
import type { Folder, Sampled } from './tree.js';

/** What came of a mutant. */
export interface Verdict {
  readonly key: string;
  readonly verdict: 'killed' | 'timeout' | 'survived';
  /** The file that failed, and its test. */
  readonly by?: string;
  readonly test?: string;
  /** Whether a file that existed before the server clock kills it without Redis. */
  readonly before: boolean;
  /** Whether only the cheapest tests that reach it have run. */
  readonly isPartly?: boolean;
}

export interface Measured {
  readonly date: string;
  readonly versions: string;
  readonly processor: string;
  readonly seed: number;
  readonly sample: readonly Sampled[];
  readonly folders: readonly Folder[];
  readonly verdicts: ReadonlyMap<string, Verdict>;
  /** How many spec files ran after and before, and how many fail in a copy with switches. */
  readonly files: { readonly after: number; readonly before: number; readonly unused: number };
  readonly isEquivalent: (mutant: Sampled) => string | undefined;
}

const COLUMNS = [
  'folder',
  'lines',
  'all mutants',
  'ran',
  'equivalent',
  'killed before',
  'killed after',
  'survived',
] as const;

/** Returns the text of `labs/mutation/RESULTS.md`. */
export function resultsOf(measured: Measured): string {
  const { date, versions, processor, seed, sample, folders, verdicts, files, isEquivalent } = measured;
  const ran = sample.filter(({ key }) => verdicts.has(key));
  const verdictOf = ({ key }: Sampled): Verdict => verdicts.get(key) as Verdict;
  const survived = ran.filter((mutant) => verdictOf(mutant).verdict === 'survived');
  const rows = folders.map(({ name, lines, all }) => [
    name,
    String(lines),
    String(all),
    ...countsOf(ran.filter(({ folder }) => folder === name)),
  ]);
  const total = [
    'all',
    ...[1, 2].map((i) => String(rows.reduce((sum, row) => sum + Number(row[i]), 0))),
    ...countsOf(ran),
  ];

  function countsOf(of: readonly Sampled[]): readonly string[] {
    const equivalent = of.filter((mutant) => isKnown(mutant)).length;
    const rest = of.length - equivalent;
    const after = of.filter((mutant) => verdictOf(mutant).verdict !== 'survived').length;
    const before = of.filter((mutant) => verdictOf(mutant).before).length;
    const share = (count: number): string => (rest === 0 ? '–' : `${count} (${((100 * count) / rest).toFixed(1)} %)`);
    return [String(of.length), String(equivalent), share(before), share(after), String(rest - after)];
  }
  function isKnown(mutant: Sampled): boolean {
    return verdictOf(mutant).verdict === 'survived' && isEquivalent(mutant) !== undefined;
  }
  function listOf(mutants: readonly Sampled[], more: (mutant: Sampled) => string = () => ''): string {
    const sorted = mutants.toSorted((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
    return sorted.map((mutant) => `- ${describe(mutant)}${more(mutant)}`).join('\n');
  }
  const partly = survived.filter((mutant) => verdictOf(mutant).isPartly === true && !isKnown(mutant)).length;
  const timeouts = ran.filter((mutant) => verdictOf(mutant).verdict === 'timeout');
  return `# Which changes of the library the tests notice

\`npm run mutation\` writes this file. Nobody edits it by hand. ${date}, ${versions}, ${processor}.

${ran.length} of the ${sample.length} mutants of seed ${seed} ran. _Before_: ${files.before} files of tests that existed
before the server clock and use no server. _After_: the ${files.after} files of \`npm test\`. ${files.unused} other files
fail in a copy of the library with switches, because they check the sources. They do not count. Percentages leave out
equivalent mutants. ${partly} of the survivors have met only the tests that take a minute together: the others might
notice them.

${markdownTable(COLUMNS, [...rows, total])}

## Survivors

${listOf(survived.filter((mutant) => !isKnown(mutant)))}

## Equivalent mutants

${listOf(survived.filter(isKnown), (mutant) => `: ${isEquivalent(mutant)}`)}

## Killed because a test did not end

${listOf(timeouts)}
`;
}

function describe({ file, line, original, replacement }: Sampled): string {
  const code = (text: string): string => `\`\` ${text.replaceAll(/\s+/g, ' ').slice(0, 120)} \`\``;
  return `${file}:${line}: ${code(original)} ${replacement === '' ? 'removed' : `becomes ${code(replacement)}`}`;
}
