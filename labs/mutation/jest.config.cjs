// For the copy of the repository in which mutants run.
const path = require('node:path');
const { configOf } = require('../../jest.config.cjs');

module.exports = async () => ({
  ...(await configOf('quick')),
  rootDir: path.join(__dirname, '../..'),
  roots: ['<rootDir>/mutation'],
  testMatch: ['<rootDir>/mutation/*.ts'],
  testEnvironment: '<rootDir>/labs/mutation/environment.cjs',
  testSequencer: '<rootDir>/labs/mutation/in-order.cjs',
  reporters: [],
});
