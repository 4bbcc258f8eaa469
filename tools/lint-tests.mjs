// npm run lint:tests: finds tests of `npm test` that depend on real time. Such a test fails when the machine is busy.
// Slow tests and the files of test/real-time.txt may wait. `npm run test:full` runs them.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const { files, isRealTime, isSlow, realTime, root } = createRequire(import.meta.url)('../test/suites/plan.cjs');

const FORBIDDEN = [
  [/\bsleep\(|timers\/promises|\bsetTimeout\(resolve, [^0]/, 'waits for real time. Await an event, or move the clock'],
  [/\b(?:performance|Date)\.now\(\)/, 'measures real time. Read the clock of the test'],
];

/** A shorter lease of an application is over when the machine stops for a moment. A module refuses 10 ms and less. */
const SHORTEST_LEASE_MS = 30_000;
const REFUSED_MS = 10;
const LEASE = /\b(?:ttlMs|leaseMs): (\w+)/g;
const OF_APPLICATIONS = /^test\/(?:docs|e2e|integration|sample)\//;
/** Is in each file whose clock belongs to the test. */
const OWN_CLOCK = /ManualClock|TestBench|faultyLocks|server-clock/;

function* findingsIn(file) {
  const text = readFileSync(join(root, file), 'utf8');
  const hasLeases = OF_APPLICATIONS.test(file) && !OWN_CLOCK.test(text);
  for (const [index, line] of text.split('\n').entries()) {
    if (/^\s*(?:\/\/|\/?\*)/.test(line)) continue;
    const at = `${file}:${index + 1}:`;
    for (const [pattern, why] of FORBIDDEN) if (pattern.test(line)) yield `${at} ${why}.`;
    for (const [, given] of hasLeases ? line.matchAll(LEASE) : []) {
      const [, value = given] = new RegExp(`const ${given} = ([\\d_]+);`).exec(text) ?? [];
      const ms = Number(value.replaceAll('_', ''));
      if (ms > REFUSED_MS && ms < SHORTEST_LEASE_MS) yield `${at} a lease of ${ms} ms, on the clock of the machine.`;
    }
  }
}

const quick = files.filter((file) => !isSlow(file) && !isRealTime(file));
const gone = realTime.filter((file) => !existsSync(join(root, file)));
const found = [
  ...gone.map((file) => `test/real-time.txt: ${file} does not exist.`),
  ...quick.flatMap((file) => [...findingsIn(file)]),
];
for (const finding of found) console.error(finding);
console.log(`${found.length} found in ${quick.length} test files`);
process.exitCode = found.length === 0 ? 0 : 1;
