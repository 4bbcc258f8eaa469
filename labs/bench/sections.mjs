// Writes the start of many instances into docs/performance.md, the timeline of a handoff into README.md, and the table
// and the picture of the simulation: node labs/bench/sections.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { chart } from '../simulation/chart.mjs';
import { number, table } from './format.mjs';
import { replaced } from './marks.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const CHART = join(ROOT, 'labs/simulation/chart.svg');
const isCheck = process.argv.includes('--check');

const read = (path) => readFileSync(join(ROOT, path), 'utf8');
const simulated = JSON.parse(read('labs/simulation/results.json'));
const timeline = JSON.parse(read('labs/bench/results/timeline.json'));
const started = JSON.parse(read('labs/bench/results/start.json'));

const written = {
  'docs/performance.md': { start: startOfMany(started) },
  'labs/bench/README.md': { timeline: handoff(timeline) },
  'labs/simulation/README.md': { simulation: simulation(simulated) },
};
for (const [path, sections] of Object.entries(written)) {
  const text = read(path);
  const page = Object.entries(sections).reduce((all, [name, section]) => replaced(all, name, section), text);
  const filepath = join(ROOT, path);
  const made = await format(page, { ...(await resolveConfig(filepath)), filepath, proseWrap: 'always' });
  write(filepath, text, made);
}
const panels = simulated.outcomes.map(({ scenario, requestsBySecond }) => ({
  title: titleOf(scenario),
  requestsBySecond,
}));
write(CHART, isCheck ? read('labs/simulation/chart.svg') : '', chart(panels));

function write(path, before, after) {
  if (!isCheck) return writeFileSync(path, after);
  if (before === after) return;
  console.error(`${path} differs from the results. Run node labs/bench/sections.mjs to write it.`);
  process.exitCode = 1;
}

function titleOf({ name, instances, keys, masters, rounds, mode }) {
  const all = instances.toLocaleString('en');
  if (mode === 'shared') return `${all} readers of one key behind a writer`;
  if (name === 'one key') return `${all} instances, one key`;
  return `${all} instances, ${keys.toLocaleString('en')} keys on ${masters} masters, ${rounds} locks each`;
}

function simulation({ hopMs, measured, outcomes }) {
  const load = (each, show) => (each === undefined ? '' : show(each));
  const percent = (share) => `${number(share * 100, 1)} %`;
  const rows = outcomes.map(({ scenario, waiting, serving, servedMs, requestsPerLock, longestQueue }) => [
    titleOf(scenario),
    load(waiting, ({ requests, busy }) => `${number(requests, 0)} · ${percent(busy)}`),
    load(serving, ({ requests, busy }) => `${number(requests, 0)} · ${percent(busy)}`),
    number(servedMs / 1_000, 1),
    number(requestsPerLock, 1),
    number((longestQueue * measured.entryBytes) / 1_024, 0),
  ]);
  const head = [
    '',
    'requests/s · busy, while all wait',
    'requests/s · busy, while locks are served',
    's until all are served',
    'requests per lock',
    'queue, KiB',
  ];
  return [
    table(head, rows),
    '![The requests of each virtual second as a bar chart](chart.svg)',
    'The figures are of the busiest master. All instances arrive within a second, and another one holds the one key for ' +
      'a minute first. Each holder works for 1 ms, with many keys for 5 ms. One way through the network takes ' +
      `${hopMs} to ${hopMs * 1.5} ms. Requests take as long as on ${measured.server}, ${measured.processor}, ` +
      `${measured.date}.`,
  ].join('\n\n');
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
