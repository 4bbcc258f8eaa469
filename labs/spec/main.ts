// npm run spec: checks the specification in lock.qnt, and that it accepts what the explorer does.
import { parseArgs } from 'node:util';
import { BREAKS } from './broken.js';
import { accepts, install, simulate } from './quint.js';
import { record, type Trace } from './traces.js';

const HELP = `npm run spec -- [options]
  --samples <n>   how many random runs of the specification. Default: 1000
  --traces <n>    how many traces of the explorer it has to accept. Default: 1000
  --first <n>     the first seed of the explorer. Default: 1
  --calls <n>     how many calls a seed makes. Default: 12`;
const STEPS = 80;
const BATCH = 50;
const BROKEN_TRACES = 40;

const { values: options } = parseArgs({
  options: {
    samples: { type: 'string', default: '1000' },
    traces: { type: 'string', default: '1000' },
    first: { type: 'string', default: '1' },
    calls: { type: 'string', default: '12' },
    help: { type: 'boolean', default: false },
  },
});
const say = (line: string): void => void process.stdout.write(`${line}\n`);
if (options.help) {
  say(HELP);
  process.exit();
}
install();
let isSound = true;

const samples = Number(options.samples);
if (samples > 0) {
  const output = await simulate(samples, STEPS, 1);
  if (!output.includes('[ok] No violation found')) isSound = false;
  say(isSound ? `${samples} random runs of up to ${STEPS} steps: all invariants hold` : output);
}

/** The traces of the explorer, and their seeds. */
const traces: { readonly seed: number; readonly trace: Trace }[] = [];
const count = Number(options.traces);
for (let seed = Number(options.first); traces.length < count; seed += 1)
  for (const trace of await record(seed, { calls: Number(options.calls) })) traces.push({ seed, trace });
traces.length = count;

let steps = 0;
for (let i = 0; i < count; i += BATCH) {
  const batch = traces.slice(i, i + BATCH);
  const accepted = await accepts(batch.map(({ trace }) => trace));
  batch.forEach(({ seed, trace }, n) => {
    steps += trace.length;
    if (accepted[n]) return;
    isSound = false;
    say(`a trace of seed ${seed} is rejected: npm run spec -- --samples 0 --first ${seed} --traces 3`);
  });
  say(`${Math.min(count, i + BATCH)} traces, ${steps} steps`);
}

const few = traces.slice(0, BROKEN_TRACES);
for (const [what, breakOne] of Object.entries(BREAKS)) {
  const broken = few.map(({ trace }) => breakOne(trace)).filter((trace) => trace !== undefined);
  const rejected = (await accepts(broken)).filter((isAccepted) => !isAccepted).length;
  say(`${what}: ${rejected} of ${broken.length} traces are rejected`);
  if (rejected < broken.length) isSound = false;
}
process.exit(isSound ? 0 : 1);
