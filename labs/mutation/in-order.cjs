const { createRequire } = require('node:module');

const { default: TestSequencer } = createRequire(require.resolve('jest'))('@jest/test-sequencer');

/** Runs the parts of the mutants in the order of their names. */
module.exports = class InOrder extends TestSequencer {
  sort(tests) {
    return tests.toSorted((one, other) => (one.path < other.path ? -1 : 1));
  }
};
