import { markdownTable } from '../../test/support/markdown-table.js';
import type { Scenario } from '../../test/support/model-checker/scenario.js';
import type { Verdict } from '../../test/support/model-checker/verdict.js';

/** A scenario, the command that explores it, and what came of it. */
export interface Row {
  readonly scenario: Scenario;
  readonly runBy: string;
  readonly verdict: Verdict;
}

/** What the results were made with. */
export interface ResultsHead {
  readonly date: string;
  readonly versions: string;
  readonly processor: string;
}

const COLUMNS = ['scenario', 'run by', 'states', 'transitions', 'ends', 'exchanges', 'seconds', 'result'] as const;

/** Returns `sound`, the violation's first line, or how many exchanges the scripts do differently. */
export function resultOf({ violation, differences }: Verdict): string {
  if (violation !== undefined) return violation.split('\n', 1)[0];
  return differences.length === 0 ? 'sound' : `${differences.length} exchanges differ from the scripts`;
}

/** Returns the text of `labs/model/RESULTS.md`, made of nothing but what was run. */
export function resultsOf(rows: readonly Row[], missing: readonly string[], head: ResultsHead): string {
  const { date, versions, processor } = head;
  return `# The scenarios that the model checker explores

\`npm run model\` writes this file. Nobody edits it by hand. ${date}, ${versions}.

The seconds are of one machine (${processor}), with whatever else ran on it.

Each scenario is exhaustive within its bounds. _States_: different states of the server, the processes and the network.
_Ends_: runs after which every waiting caller must get the lock. _Exchanges_: different requests to the server, all of
which also ran on a real Redis. _Sound_: one owner, rising tokens, progress and tidiness in every state, and no exchange
that the scripts do differently. A release by force ends no lock but the one that it found. Its former holder does not
count as an owner, even before it learns of the release.

${markdownTable(COLUMNS, rows.map(cellsOf))}
${missing.map((name) => `\nNot run yet: ${name}.\n`).join('')}`;
}

function cellsOf({ scenario, runBy, verdict }: Row): readonly string[] {
  const { states, transitions, ends, exchanges, seconds } = verdict;
  const counts = [states, transitions, ends, exchanges].map((count) => count.toLocaleString('en'));
  return [scenario.name, `\`${runBy}\``, ...counts, seconds.toFixed(1), resultOf(verdict)];
}
