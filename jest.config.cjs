// CommonJS through swc, `@nestjs/*` included: Nest 12 is ESM-only, and this is the set-up that needs no Node flags.
const { createRequire } = require('node:module');
const { isFullRun, matchesOf } = require('./test/suites/plan.cjs');
const { modules } = require('./tools/entry-points.cjs');

const jsc = { target: 'es2022', keepClassNames: true };
const commonjs = { swcrc: false, sourceMaps: 'inline', module: { type: 'commonjs' } };

// The parser of jest's own arguments. It says which of them are paths.
const { buildArgv } = createRequire(require.resolve('jest'))('jest-cli');

/** @type {import('jest').Config} */
const config = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test', '<rootDir>/labs'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        ...commonjs,
        jsc: {
          ...jsc,
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
        },
      },
    ],
    '^.+\\.js$': ['@swc/jest', { ...commonjs, jsc: { ...jsc, parser: { syntax: 'ecmascript' } } }],
  },
  // `content-disposition`, which mercurius loads, is ESM-only, too.
  transformIgnorePatterns: ['/node_modules/(?!@nestjs/|@fastify/static/node_modules/|content-disposition/)'],
  // Nest loads the packages of gateways itself, and it is not below test/.
  modulePaths: ['<rootDir>/test/node_modules'],
  moduleNameMapper: {
    ...Object.fromEntries(Object.entries(modules).map(([name, path]) => [`^${name}$`, `<rootDir>/${path}`])),
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  setupFilesAfterEnv: ['<rootDir>/test/suites/each-file.ts'],
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  reporters: [
    'default',
    '<rootDir>/test/suites/file-of-test.reporter.cjs',
    '<rootDir>/test/support/no-skips.reporter.cjs',
  ],
  testSequencer: '<rootDir>/test/suites/longest-first.cjs',
  // One more than the processors of the machines that run this. A worker often waits for a server.
  maxWorkers: 3,
  // Concurrent tests wait for leases of whole seconds and use no processor meanwhile.
  maxConcurrency: 20,
};

/**
 * Returns the configuration of a part. With a path as an argument, each file runs by itself.
 *
 * @param {'quick' | 'full'} part
 */
async function configOf(part) {
  const { _, testPathPatterns = [] } = await buildArgv(process.argv.slice(2));
  const paths = [..._, ...testPathPatterns];
  const globalSetup = `<rootDir>/test/support/global-setup${isFullRun(part, paths) ? '-full' : ''}.ts`;
  return { ...config, globalSetup, testMatch: matchesOf(part, paths) };
}

module.exports = () => configOf('quick');
module.exports.configOf = configOf;
