// For the copy of the repository in which mutants run.
const path = require('node:path');
const { configOf } = require('../../jest.config.cjs');

module.exports = async () => ({
  ...(await configOf('quick')),
  rootDir: path.join(__dirname, '../..'),
  roots: [path.dirname(process.env.MUTATION_PLAN)],
  testMatch: ['**/*.ts'],
  testEnvironment: '<rootDir>/labs/mutation/environment.cjs',
  testSequencer: '<rootDir>/labs/mutation/in-order.cjs',
  reporters: [],
  // What a failed test has left may keep the process alive.
  forceExit: true,
});
