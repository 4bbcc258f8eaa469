// Writes the start of many instances into docs/performance.md, and the timeline of a handoff into the README here:
// node labs/bench/sections.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { number, table } from './format.mjs';
import { replaced } from './marks.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const isCheck = process.argv.includes('--check');

const read = (path) => readFileSync(join(ROOT, path), 'utf8');
const timeline = JSON.parse(read('labs/bench/results/timeline.json'));
const started = JSON.parse(read('labs/bench/results/start.json'));

const written = {
  'docs/performance.md': { start: startOfMany(started) },
  'labs/bench/README.md': { timeline: handoff(timeline) },
};
for (const [path, sections] of Object.entries(written)) {
  const text = read(path);
  const page = Object.entries(sections).reduce((all, [name, section]) => replaced(all, name, section), text);
  const filepath = join(ROOT, path);
  const made = await format(page, { ...(await resolveConfig(filepath)), filepath, proseWrap: 'always' });
  write(filepath, text, made);
}
function write(path, before, after) {
  if (!isCheck) return writeFileSync(path, after);
  if (before === after) return;
  console.error(`${path} differs from the results. Run node labs/bench/sections.mjs to write it.`);
  process.exitCode = 1;
}

function handoff({ machine, handoffs, steps, floors }) {
  const row = ({ name, median, p99 }) => [name, number(median, 0), number(p99, 0)];
  return [
    table(['one handoff, µs', 'median', 'p99'], [...steps.map(row), ...floors.map(row)]),
    `Two processes with \`fairness: 'strict'\`, 1 ms of work, ${handoffs.toLocaleString('en')} handoffs. The physical ` +
      `floor is ioredis alone in the same processes. Measured on ${machine.processor}, ${machine.cores} cores, Node ${machine.node}, Redis ${machine.redis}, ` +
      `${machine.date}. ${machine.note}`,
  ].join('\n\n');
}

function startOfMany({ machine, processes, spreadMs, workMs, outcomes }) {
  const seconds = (ms) => number(ms / 1_000, 2);
  const rows = outcomes.map((each) => [
    `${number(each.instances, 0)} instances, ${each.apart ? 'a lock each' : 'one lock'}`,
    number(each.connections, 0),
    number(each.scripts / each.instances, 1),
    seconds(each.allMs),
    `${number(each.medianMs, 0)} · ${number(each.longestMs, 0)}`,
    number(each.failures, 0),
  ]);
  const head = [
    '',
    'connections',
    'lock requests per instance',
    's until all had a lock',
    'ms from start to lock, median · longest',
    'errors',
  ];
  return [
    table(head, rows),
    `The instances are in ${processes} processes, start within ${spreadMs / 1_000} s, acquire immediately, and hold their ` +
      `lock for ${workMs} ms. Measured on ${machine.processor}, ${machine.cores} cores, Node ${machine.node}, Redis ${machine.redis}, ` +
      `${machine.date}. ${machine.note}`,
  ].join('\n\n');
}
