// npm run lint:tests: finds tests of `npm test` that depend on real time. Such a test fails when the machine is busy.
// Slow tests and those of test/real-time may wait. `npm run test:full` runs them.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const { files, isFull, root } = createRequire(import.meta.url)('../test/suites/plan.cjs');

const FORBIDDEN = [
  [/\bsleep\(|timers\/promises|\bsetTimeout\(resolve, [^0]/, 'waits for real time. Await an event, or move the clock'],
  [/\b(?:performance|Date)\.now\(\)|\bhrtime\b/, 'measures real time. Read the clock of the test'],
];

function* findingsIn(file) {
  const lines = readFileSync(join(root, file), 'utf8').split('\n');
  for (const [index, line] of lines.entries()) {
    if (/^\s*(?:\/\/|\/?\*)/.test(line)) continue;
    for (const [pattern, why] of FORBIDDEN) if (pattern.test(line)) yield `${file}:${index + 1}: ${why}.`;
  }
}

const quick = files.filter((file) => !isFull(file));
const found = quick.flatMap((file) => [...findingsIn(file)]);
for (const finding of found) console.error(finding);
console.log(`${found.length} found in ${quick.length} test files`);
process.exitCode = found.length === 0 ? 0 : 1;
