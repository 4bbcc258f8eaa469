// What the version matrix runs. A version without a patch number is the newest one of the registry.

/** The lowest Node of `engines`, and the newest of each line. */
export const NODES = ['20.3', '20', '22', '24', 'latest'];

const OTHERS = { '@types/node': '20.19.43', 'reflect-metadata': '0.2.2', rxjs: '7.8.2' };
const OPTIONAL = {
  '@nestjs-cls/transactional': '3.3.0',
  '@opentelemetry/api': '1.9.1',
  'nestjs-cls': '6.3.1',
  'prom-client': '15.1.3',
};

const nest = (version, terminus) => ({
  '@nestjs/common': version,
  '@nestjs/core': version,
  '@nestjs/platform-express': version,
  '@nestjs/platform-fastify': version,
  '@sentry/nestjs': '^10',
  '@nestjs/terminus': terminus,
});
/** It knows Nest 11 and 12. */
const OBSERVE = { '@nestjs/observe': '^0.3' };

const application = (name, ioredis, redis, packages, lowestNode = '20.3') => ({
  name,
  packages: { ...OTHERS, ...OPTIONAL, ...packages, ioredis, redis },
  lowestNode,
});

/**
 * The applications. Each locks by ioredis and by node-redis, the package `redis`. The first has the lowest version of
 * each peer dependency, and another one has the first version of node-redis 6.
 */
export const APPLICATIONS = [
  application('lowest', '5.3.0', '5.9.0', {
    ...nest('10.1.3', '11.0.0'),
    '@nestjs-cls/transactional': '3.0.0',
    '@opentelemetry/api': '1.9.0',
    'prom-client': '15.0.0',
    'reflect-metadata': '0.1.13',
    rxjs: '7.3.0',
  }),
  application('nest10-ioredis5', '^5', '^5', nest('^10', '^11')),
  application('nest10-ioredis6', '^6', '6.0.0', nest('^10', '^11')),
  application('nest11-ioredis5', '^5', '^5', { ...nest('^11', '^11'), ...OBSERVE }),
  application('nest11-ioredis6', '^6', '^6', nest('^11', '^11')),
  // Packages of Nest 12 are ES modules, and need a Node that loads these by `require`.
  application('nest12-ioredis5', '^5', '^5', nest('^12', '^12'), '20.19'),
  application('nest12-ioredis6', '^6', '^6', { ...nest('^12', '^12'), ...OBSERVE }, '20.19'),
];

/** What compiles the applications before they run. */
export const COMPILER = '5.9';

/** The versions of TypeScript that compile an application. */
export const COMPILERS = ['5.4', '5.5', '5.6', '5.7', '5.8', '5.9', '6.0'];

/** Nest 12 is an ES module, and is compiled by `nest12-ioredis6` where a column says so. */
export const RESOLUTIONS = [
  { name: 'node16, CommonJS', from: 'nest11-ioredis6', format: 'cjs', args: ['--module', 'node16'] },
  { name: 'node16, ES module', from: 'nest11-ioredis6', format: 'esm', args: ['--module', 'node16'] },
  { name: 'nodenext, Nest 12', from: 'nest12-ioredis6', format: 'esm', args: ['--module', 'nodenext'] },
  {
    name: 'bundler',
    from: 'nest11-ioredis6',
    format: 'esm',
    args: ['--module', 'esnext', '--moduleResolution', 'bundler'],
  },
  {
    name: 'node10',
    from: 'nest11-ioredis6',
    format: 'cjs',
    args: ['--module', 'commonjs', '--moduleResolution', 'node10'],
    // TypeScript 6 reports node10 as deprecated.
    deprecated: true,
  },
  {
    name: 'exactOptionalPropertyTypes',
    from: 'nest11-ioredis6',
    format: 'cjs',
    args: ['--module', 'node16', '--exactOptionalPropertyTypes'],
  },
];

/** Runs the ES modules of these applications. */
export const BUN = { version: '1', applications: ['nest11-ioredis5', 'nest12-ioredis6'] };
