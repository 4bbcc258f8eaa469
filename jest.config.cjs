// CommonJS through swc, `@nestjs/*` included: Nest 12 is ESM-only, and this is the set-up that needs no Node flags.
const { modules } = require('./tools/entry-points.cjs');

const jsc = { target: 'es2022', keepClassNames: true };
const commonjs = { swcrc: false, sourceMaps: 'inline', module: { type: 'commonjs' } };

/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.spec.ts'],
  testPathIgnorePatterns: ['/node_modules/', '\\.slow\\.spec\\.ts$'],
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
  moduleNameMapper: {
    ...Object.fromEntries(Object.entries(modules).map(([name, path]) => [`^${name}$`, `<rootDir>/${path}`])),
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  setupFiles: ['<rootDir>/test/support/keep-handles.ts'],
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  reporters: ['default', '<rootDir>/test/support/no-skips.reporter.cjs'],
  // Many tests wait for leases. Three workers keep two cores busy for three quarters of the time.
  maxWorkers: 3,
  // Concurrent tests wait for leases of whole seconds and use no processor meanwhile.
  maxConcurrency: 20,
  // Several times of what any test needs, because the machine may be busy.
  testTimeout: 30_000,
};
