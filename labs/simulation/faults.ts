// npm run simulate -- --faults: many small runs of the whole engine with faults. Writes FAULTS.md.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { markdownTable } from '../../test/support/markdown-table.js';
import { BROKEN } from '../../test/support/whole-engine/broken.js';
import { type Campaign, catchBroken, runSeeds, shrinkCaught } from '../../test/support/whole-engine/campaign.js';
import { Coverage, WATCHED } from '../../test/support/whole-engine/coverage.js';
import { type Plan, planOf } from '../../test/support/whole-engine/plan.js';
import { shrink } from '../../test/support/whole-engine/shrink.js';
import { simulate } from '../../test/support/whole-engine/simulation.js';

/** Which seeds to run, and how long. */
export interface FaultOptions {
  readonly from: number;
  readonly seeds: number;
  readonly minutes: number;
  readonly writes: boolean;
}

const TELL_EVERY_MS = 10_000;
/** A broken engine is caught within this many seeds. */
const MOST_TO_CATCH = 2_000;

const say = (line: string): void => void process.stderr.write(`${line}\n`);

/** Runs one seed and says all that happens. A run that fails is shrunk. Returns whether it is sound. */
export async function replay(seed: number): Promise<boolean> {
  const { violation } = await tell(planOf(seed));
  if (violation === undefined) {
    say('sound');
    return true;
  }
  await tellShrunk(planOf(seed), violation);
  return false;
}

/** Runs seeds, and writes the results if no run fails. Returns whether all are sound. */
export async function runFaults({ from, seeds, minutes, writes }: FaultOptions): Promise<boolean> {
  // Somebody may commit meanwhile.
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  // Nobody reads the stacks of the errors that callers get.
  Error.stackTraceLimit = 0;
  const begin = performance.now();
  let told = begin;
  const coverage = new Coverage();
  const stop = coverage.start();
  const campaign = await runSeeds(from, ({ runs, cpuMs }) => {
    const now = performance.now();
    if (now - told >= TELL_EVERY_MS) {
      told = now;
      const passed = ((now - begin) / 1_000).toFixed(0);
      say(`${runs} seeds in ${passed} s, ${(cpuMs / runs).toFixed(1)} ms of processor time each`);
    }
    return runs >= seeds || now - begin >= minutes * 60_000;
  });
  stop();
  const seconds = (performance.now() - begin) / 1_000;
  say(`${campaign.runs} seeds in ${seconds.toFixed(0)} s`);
  const { failure } = campaign;
  if (failure !== undefined) {
    say(`seed ${failure.seed} fails: ${failure.violation}`);
    await tellShrunk(planOf(failure.seed), failure.violation);
    return false;
  }
  if (!writes) return true;
  const rows: (readonly string[])[] = [];
  for (const broken of BROKEN) {
    const caught = await catchBroken(broken, from, MOST_TO_CATCH);
    const shrunk = caught && (await shrinkCaught(broken, caught));
    say(`${broken.name}: ${caught === undefined ? 'not caught' : `caught by seed ${caught.seed}`}`);
    if (caught === undefined || shrunk === undefined)
      rows.push([broken.name, `not within ${MOST_TO_CATCH}`, '', '', '']);
    else
      rows.push([
        broken.name,
        String(caught.seed - from + 1),
        sizeOf(caught.plan),
        sizeOf(shrunk.plan),
        shrunk.violation,
      ]);
  }
  await write(textOf(campaign, { commit, seconds, from, rows, coverage }));
  return true;
}

async function tell(plan: Plan): Promise<{ readonly violation: string | undefined }> {
  const outcome = await simulate(plan, { traces: true });
  for (const line of outcome.trace) say(line);
  return outcome;
}

async function tellShrunk(plan: Plan, violation: string): Promise<void> {
  say(`${violation}\nShrinking ${sizeOf(plan)}`);
  const judge = async (smaller: Plan) => (await simulate(smaller)).violation;
  const shrunk = await shrink(plan, violation, judge);
  say(`After ${shrunk.runs} runs: ${sizeOf(shrunk.plan)}`);
  say(inspect(shrunk.plan, { depth: null, breakLength: 120, compact: 4 }));
  await tell(shrunk.plan);
  say(shrunk.violation);
}

function sizeOf({ processes, callers, faults }: Plan): string {
  const steps = callers.reduce((sum, caller) => sum + caller.steps.length, 0);
  return `${processes.length} processes, ${callers.length} callers, ${steps} calls, ${faults.length} faults`;
}

interface Head {
  readonly commit: string;
  readonly seconds: number;
  readonly from: number;
  readonly rows: readonly (readonly string[])[];
  readonly coverage: Coverage;
}

function textOf(campaign: Campaign, { commit, seconds, from, rows, coverage }: Head): string {
  const { runs, calm, events, grants, virtualMs, cpuMs } = campaign;
  const [{ model: processor }] = cpus();
  const date = new Date().toISOString().slice(0, 10);
  const count = (value: number): string => Math.round(value).toLocaleString('en');
  const pairs = WATCHED.flatMap(({ name, events: all, states }) =>
    all.flatMap((event) => states.map((state) => coverage.countOf(name, event, state))),
  );
  const tables = WATCHED.map(({ name, states, events: all }) => {
    const cells = all.map((event) => [event, ...states.map((state) => cellOf(coverage.countOf(name, event, state)))]);
    return `### ${name}\n\n${markdownTable(['event', ...states], cells)}\n`;
  });
  return `# Runs of the whole engine with faults

\`npm run simulate -- --faults\` writes this file. Nobody edits it by hand. ${date}, commit ${commit}, Node
${process.version}, ${processor}.

${markdownTable(
  ['', ''],
  [
    ['seeds', `${count(runs)}, from ${from} on`],
    ['of them without a fault', count(calm)],
    ['violations', '0'],
    ['seconds, in one process', count(seconds)],
    ['processor time for each seed', `${(cpuMs / runs).toFixed(1)} ms`],
    ['time that passed in the runs', `${count(virtualMs / 3_600_000)} hours`],
    ['grants that callers got', count(grants)],
    ['events', count(events)],
  ],
)}

## Without one rule

Each row takes one rule out of the engine or its store. The runs must catch it.

${markdownTable(['left out', 'caught by seed number', 'the run', 'shrunk', 'violation of the shrunk run'], rows)}

## States and events

How often each class of the engine got each event in each state. The states are those of \`lib/core/README.md\`. An
empty cell was not reached: ${pairs.filter((each) => each === 0).length} of ${pairs.length} pairs. Many of these cannot
occur: a loop that is idle gets no reply.

${tables.join('\n')}`;
}

function cellOf(count: number): string {
  return count === 0 ? '' : count.toLocaleString('en');
}

async function write(text: string): Promise<void> {
  const file = fileURLToPath(new URL('FAULTS.md', import.meta.url));
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), parser: 'markdown' }));
}
