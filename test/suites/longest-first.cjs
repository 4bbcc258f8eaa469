const { createRequire } = require('node:module');
const path = require('node:path');
const { root } = require('./plan.cjs');
const seconds = require('./seconds.json');

const { default: TestSequencer } = createRequire(require.resolve('jest'))('@jest/test-sequencer');

const nameOf = (test) => path.relative(root, test.path).split(path.sep).join('/');
/** What the list does not name may be long, so it starts first. */
const secondsOf = (test) => seconds[nameOf(test)] ?? Infinity;

/** Starts the longest suites first, by a list that is committed. A cold cache of jest knows file sizes only. */
module.exports = class LongestFirst extends TestSequencer {
  sort(tests) {
    return tests.toSorted((one, other) => Math.sign(secondsOf(other) - secondsOf(one)) || 0);
  }
};
