const { readFileSync } = require('node:fs');

// The results do not show `only` on the only test of a file, so the reporter searches the source.
const FOCUSED = /^\s*(?:(?:it|test|describe)\.only|fit|fdescribe)\b/m;
const NOT_RUN = new Set(['pending', 'skipped', 'todo', 'disabled', 'focused']);

/** Fails a CI run that has a skipped, pending or focused test. */
module.exports = class NoSkipsReporter {
  constructor() {
    this.found = [];
  }

  onTestResult(test, result) {
    if (FOCUSED.test(readFileSync(test.path, 'utf8'))) this.found.push(`${test.path}: a focused test`);
    for (const { fullName, status } of result.testResults) {
      if (NOT_RUN.has(status)) this.found.push(`${test.path}: ${status}: ${fullName}`);
    }
    if (result.skipped) this.found.push(`${test.path}: skipped`);
  }

  getLastError() {
    if (process.env.CI !== 'true' || this.found.length === 0) return undefined;
    return new Error(`Tests that did not run:\n${this.found.map((line) => `  ${line}`).join('\n')}`);
  }
};
