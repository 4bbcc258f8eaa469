module.exports = {
  testMatch: ['**/*.{spec,test}.ts'],
  transform: {
    '^.+\\.(ts|js)$': [
      '@swc/jest',
      {
        jsc: {
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
        },
        module: { type: 'commonjs' },
      },
    ],
  },
  // Nest 12 is ESM-only: SWC compiles it to CommonJS as well.
  transformIgnorePatterns: ['/node_modules/(?!@nestjs/|nestjs-redis-lock/)'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
};
