// npm run explore: runs small scenarios of test/explorer in every order, then many seeds. Stops at the first problem.
import { exhaust } from '../../test/support/explorer/exhaust.js';
import { explore } from '../../test/support/explorer/explore.js';
import { LONG, QUICK } from '../../test/support/explorer/scenarios.js';

const first = Number(process.env['EXPLORER_FIRST'] ?? 1);
const seeds = Number(process.env['EXPLORER_SEEDS'] ?? 10_000);
const TELL_EVERY = 1_000;

const say = (line: string): void => void process.stdout.write(`${line}\n`);

// Somebody who repeats a seed wants nothing else.
for (const scenario of process.env['EXPLORER_FIRST'] === undefined ? [...QUICK, ...LONG] : []) {
  const { schedules, problems } = await exhaust(scenario);
  say(`${scenario.title}: ${schedules} schedules, ${problems.length === 0 ? 'no problem' : problems.join('; ')}`);
  if (problems.length > 0) process.exit(1);
}

let grants = 0;
let closedMs = 0;
for (let seed = first; seed < first + seeds; seed += 1) {
  const result = await explore(seed);
  grants += result.grants;
  closedMs = Math.max(closedMs, result.closedMs);
  if (result.problems.length > 0) {
    say(`seed ${seed}: ${result.problems.join('; ')}`);
    say(`again: EXPLORER_FIRST=${seed} EXPLORER_SEEDS=1 npm run explore`);
    process.exit(1);
  }
  if ((seed - first + 1) % TELL_EVERY === 0) say(`${seed - first + 1} seeds, no problem`);
}
say(`${seeds} seeds from ${first}: no problem, ${grants} grants, a key closed for at most ${Math.round(closedMs)} ms`);
// What a run leaves behind belongs to its manual clock.
process.exit(0);
