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
/** How much Quint does between two lines of progress. */
const SAMPLES = 200;
const TRACES = 50;
const BROKEN_TRACES = 100;

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
await install();
let isSound = true;

const samples = Number(options.samples);
for (let done = 0; done < samples; done += SAMPLES) {
  const output = await simulate(Math.min(SAMPLES, samples - done), STEPS, 1 + done);
  const isKept = output.includes('[ok] No violation found');
  if (!isKept) isSound = false;
  say(isKept ? `${Math.min(samples, done + SAMPLES)} random runs: the invariants hold` : output);
}

/** The traces of the explorer, and their seeds. */
const traces: { readonly seed: number; readonly trace: Trace }[] = [];
const count = Number(options.traces);
for (let seed = Number(options.first); traces.length < count; seed += 1)
  for (const trace of await record(seed, { calls: Number(options.calls) })) traces.push({ seed, trace });
traces.length = count;

let steps = 0;
let accepted = 0;
for (let i = 0; i < count; i += TRACES) {
  const batch = traces.slice(i, i + TRACES);
  const isAccepted = await accepts(batch.map(({ trace }) => trace));
  for (const [n, { seed, trace }] of batch.entries()) {
    steps += trace.length;
    if (isAccepted[n]) accepted += 1;
    else say(`a trace of seed ${seed} is rejected: npm run spec -- --samples 0 --first ${seed} --traces 3`);
  }
  say(`${Math.min(count, i + TRACES)} traces with ${steps} steps: ${accepted} are accepted`);
}

if (accepted < count) isSound = false;

const few = traces.slice(0, BROKEN_TRACES);
for (const [what, breakOne] of Object.entries(BREAKS)) {
  const broken = few.map(({ trace }) => breakOne(trace)).filter((trace) => trace !== undefined);
  const rejected = (await accepts(broken)).filter((is) => !is).length;
  say(`${what}: ${rejected} of ${broken.length} traces are rejected`);
  if (rejected < broken.length) isSound = false;
}
say(`${isSound ? 'no problem' : 'PROBLEMS'} after ${Math.round(performance.now() / 1_000)} s`);
process.exit(isSound ? 0 : 1);
