// What takes longer than a developer waits: consumers of the packed tarball, fuzz.
const base = require('./jest.config.cjs');

/** @type {import('jest').Config} */
module.exports = {
  ...base,
  testMatch: ['**/*.slow.spec.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  testTimeout: 900_000,
  // They start applications, servers and package managers.
  maxWorkers: 2,
};
