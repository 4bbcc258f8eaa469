// Writes the results as JSON, and a Markdown file and a chart from the JSON.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chart } from './chart.mjs';
import { allEntries } from './entries/index.mjs';
import { machineLine, pretty, table } from './format.mjs';
import { rowTable, targetTable } from './tables.mjs';

/** @returns {Promise<string[]>} the files written */
export async function writeResults(folder, results) {
  const described = {
    ...results,
    entries: allEntries
      .filter(({ variantOf }) => variantOf === undefined)
      .map(({ name, kind, waiting, defaults }) => ({ name, kind, waiting, defaults })),
  };
  const files = {
    'results.json': JSON.stringify(described),
    'results.md': markdown(described),
    'chart.svg': chart(described),
  };
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name);
    writeFileSync(file, name.endsWith('.svg') ? text : await pretty(text, file));
  }
  return Object.keys(files).map((name) => join(folder, name));
}

function markdown(results) {
  return [
    '# Benchmark results',
    ...(results.quick ? ['**A quick run: to see that it works, not to quote.**'] : []),
    machineLine(results),
    '## Figures to reach',
    targetTable(results.scenarios),
    ...results.scenarios.map(scenarioSection),
    '## How it was measured',
    ...notes(results),
  ].join('\n\n');
}

function scenarioSection({ id, title, method, failed, ...shown }) {
  if (failed !== undefined) return `## ${id} ${title}\n\nFailed: ${failed}`;
  return [`## ${id} ${title}`, method, rowTable(shown), ...stuckNote(shown.rows)].join('\n\n');
}

function stuckNote(rows) {
  const stuck = rows.filter((row) => row.stuck > 0);
  if (stuck.length === 0) return [];
  const list = stuck.map(({ name, stuck: count }) => `${name} ${count}`).join(', ');
  return [
    `Waits that had not ended some seconds after their round, when no other task wanted the lock: ${list}. They count with their duration so far.`,
  ];
}

function notes({ entries }) {
  const ways = entries.map(({ name, waiting, defaults }) => [name, waiting, defaults ?? 'the same']);
  return [
    'All entries of a scenario run in turns, in the same processes on one server. The order rotates from round to round. Short turns are ' +
      'divided and mixed within a round. The first round is dropped. A figure is the median of its rounds. A quotient is the median of the ' +
      'rounds’ quotients. p50, p99 and the longest are over all waits of all rounds. All entries use one copy of ioredis and a lease of ' +
      '30 s, except murlock, which brings node-redis. Commands are counted one by one in the client, even in pipelines.',
    'Where a library gives up waiting by its defaults, the task tries again at once, and the column "gave up" counts it.',
    'A handoff is the time from one acquisition to the next, by any task. Without work under the lock, a library without a queue mostly ' +
      'grants the lock to the task that just released it. That is fast, while the others wait: see that column, p99 and the longest.',
    'All polling libraries have the same short pause and an unlimited wait here. At their defaults they wait longer, and some give up:',
    table(['', 'waits by, here', 'at its defaults'], ways, 3),
  ];
}
