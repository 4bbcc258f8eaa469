// Sums what jest counted and prints the line CI reads. What failed without being a test (a step, a file that does not
// load, a run without counts, a skipped test) counts as a failure too: "0 failed" means that nothing did.
import { readFileSync } from 'node:fs';

const [brokenSteps, failedRuns, ...files] = process.argv.slice(2);

function read(file) {
  try {
    const counts = JSON.parse(readFileSync(file, 'utf8'));
    const notRun = counts.numPendingTests + counts.numTodoTests;
    return {
      passed: counts.numPassedTests,
      failed: counts.numFailedTests + counts.numRuntimeErrorTestSuites + notRun,
    };
  } catch {
    return { passed: 0, failed: 1 };
  }
}

const runs = files.map(read);
const sum = (key) => runs.reduce((total, run) => total + run[key], 0);
const failed = Math.max(sum('failed'), Number(failedRuns)) + Number(brokenSteps);
console.log(`${sum('passed')} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
