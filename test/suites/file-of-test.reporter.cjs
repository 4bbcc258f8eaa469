const { files } = require('./plan.cjs');

/** Names the files of the tests of a suite that failed, and the command that runs each of them alone. */
module.exports = class FileOfTestReporter {
  constructor() {
    this.failed = new Set();
  }

  onTestResult(test, result) {
    for (const { ancestorTitles, status } of result.testResults) {
      if (status === 'failed' && files.includes(ancestorTitles[0])) this.failed.add(ancestorTitles[0]);
    }
  }

  onRunComplete() {
    if (this.failed.size === 0) return;
    process.stderr.write(`\nTo run the failed files alone:\n`);
    for (const file of files.filter((name) => this.failed.has(name))) process.stderr.write(`  npx jest ${file}\n`);
  }
};
