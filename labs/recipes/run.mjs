// Runs the examples of docs/ that need packages, against the packed library.
//   npm run test:recipes                    installs the packages, runs all examples, writes the table of docs/recipes
//   npm run test:recipes -- bullmq prisma   runs these with the packages that are installed, and writes nothing
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { format, resolveConfig } from 'prettier';
import { nodeOf } from '../bench/nodes.mjs';
import { GuardedProcess } from '../../test/support/redis/guardian.js';
import { startRedis } from '../../test/support/redis/index.js';
import { freePort } from '../../test/support/redis/local-server.js';
import { findProgram, SqlServer } from '../../test/support/sql/server.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const HOME = join(ROOT, 'labs/recipes');
const LIBRARY = join(HOME, 'node_modules/nestjs-redis-lock');
const PAGE = join(ROOT, 'docs/recipes/index.md');

/** Stands before and after the table. */
const MARK = '<!-- npm run test:recipes -->';

const INSTALL_LIMIT_MS = 1_200_000;
const STEP_LIMIT_MS = 600_000;

/** @type {{ name: string, page: string, packages: string[], needs?: string }[]} */
const RECIPES = [
  { name: 'bullmq', page: '[BullMQ](messages.md#bullmq)', packages: ['@nestjs/bullmq', 'bullmq'] },
  { name: 'cqrs', page: '[CQRS](messages.md#cqrs)', packages: ['@nestjs/cqrs'] },
  {
    name: 'nats',
    page: '[Microservices](messages.md#microservices) over NATS',
    packages: ['@nestjs/microservices', '@nats-io/transport-node'],
    needs: 'nats-server',
  },
  {
    name: 'prisma',
    page: '[Prisma](../transactions.md#prisma)',
    packages: ['@prisma/client', '@prisma/adapter-pg', '@nestjs-cls/transactional-adapter-prisma'],
    needs: 'postgres',
  },
  {
    name: 'mikro-orm',
    page: '[MikroORM](../transactions.md#mikroorm)',
    packages: ['@mikro-orm/postgresql'],
    needs: 'postgres',
  },
  {
    name: 'transactions',
    page: '[Scopes](../transactions.md#without-the-adapter)',
    packages: ['sequelize', 'drizzle-orm', 'mongoose', '@mikro-orm/postgresql'],
    needs: 'postgres',
  },
  { name: 'cache', page: '[Cache](data.md#a-cache)', packages: ['@nestjs/cache-manager', '@keyv/redis'] },
  { name: 'config', page: '[Configuration](../configuration.md)', packages: ['@nestjs/config'] },
  { name: 'sentry', page: '[Sentry](../errors.md#sentry)', packages: ['@sentry/nestjs'] },
  { name: 'pino', page: '[nestjs-pino](../observability.md#logs)', packages: ['nestjs-pino', 'pino'] },
  {
    name: 'bundles',
    page: '[Bundles](#bundles-and-minifiers)',
    packages: ['webpack', 'terser-webpack-plugin', 'swc-loader', 'esbuild', '@swc/core'],
  },
  {
    name: 'runners',
    page: '[Test runners](../testing.md#test-runners)',
    packages: ['vitest', 'unplugin-swc', 'jest', '@swc/jest', 'ts-jest'],
  },
];

const wanted = process.argv.slice(2);
const names = RECIPES.map(({ name }) => name);
const unknown = wanted.filter((name) => !names.includes(name));
if (unknown.length > 0) throw new Error(`There is no recipe ${unknown.join()}. Expected one of: ${names.join(', ')}.`);
const chosen = RECIPES.filter(({ name }) => wanted.length === 0 || wanted.includes(name));

// NestJS 12 runs on Node 20, but the newest nestjs-pino, MikroORM and Vitest need Node 22.
const node = Number.parseInt(process.versions.node, 10) >= 22 ? process.execPath : nodeOf('22');
const versionOf = (name) => JSON.parse(readFileSync(join(HOME, 'node_modules', name, 'package.json'), 'utf8')).version;

/** Runs a command to its end. Throws an error with its output if it fails. */
function run(command, args, { timeout = STEP_LIMIT_MS, ...options } = {}) {
  try {
    return execFileSync(command, args, { cwd: HOME, encoding: 'utf8', stdio: 'pipe', timeout, ...options });
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')}: ${error.message}\n${error.stdout}\n${error.stderr}`, {
      cause: error,
    });
  }
}

/** Puts what `npm publish` would send in the place of an installed package. Its dependencies are in package.json. */
function installLibrary() {
  const folder = mkdtempSync(join(tmpdir(), 'recipes-'));
  try {
    run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { cwd: ROOT });
    rmSync(LIBRARY, { recursive: true, force: true });
    mkdirSync(LIBRARY, { recursive: true });
    run('tar', ['-xzf', join(folder, readdirSync(folder)[0]), '-C', LIBRARY, '--strip-components=1']);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function compile() {
  rmSync(join(HOME, 'dist'), { recursive: true, force: true });
  mkdirSync(join(HOME, 'tests/copied'), { recursive: true });
  copyFileSync(join(ROOT, 'test/docs/recipes/microservice.ts'), join(HOME, 'tests/copied/microservice.ts'));
  // `generate` does not run this engine, but downloads it if no path is given.
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' };
  run(node, ['node_modules/prisma/build/index.js', 'generate', '--schema', 'examples/prisma/schema.prisma'], { env });
  run(node, ['node_modules/typescript/bin/tsc', '-p', '.']);
}

/** Starts what the chosen recipes need, and adds its URL to `env` and its version to `versions`. */
async function startServers(env, versions, started) {
  const redis = await startRedis({ local: true });
  started.push(redis);
  env.REDIS_URL = redis.url;
  versions.push(redis.description.replace(/ \(.*/, ''));
  const isNeeded = (program) => chosen.some(({ needs }) => needs === program) && programOf(program) !== undefined;
  if (isNeeded('postgres')) {
    const port = await freePort();
    env.DATABASE_URL = `postgres://test@127.0.0.1:${port}/postgres`;
    const server = await SqlServer.postgres(port);
    started.push(server);
    const client = await server.ready(async () => {
      const one = new Client(env.DATABASE_URL);
      await one.connect();
      return one;
    });
    const { rows } = await client.query('SHOW server_version');
    versions.push(`PostgreSQL ${rows[0].server_version.split(' ')[0]}`);
    await client.end();
  }
  if (isNeeded('nats-server')) {
    const program = programOf('nats-server');
    const port = await freePort();
    env.NATS_URL = `nats://127.0.0.1:${port}`;
    const server = new GuardedProcess(program, ['-a', '127.0.0.1', '-p', String(port)], process.env);
    started.push(server);
    for (const end = performance.now() + 60_000; !server.output.includes('Server is ready'); await sleep(50)) {
      if (server.hasExited || performance.now() > end) throw new Error(`nats-server does not start: ${server.output}`);
    }
    versions.push(`NATS ${/(\d[\d.]*)/.exec(run(program, ['--version']))[1]}`);
  }
}

function programOf(name) {
  return name === 'nats-server' && process.env.NATS_SERVER_BIN ? process.env.NATS_SERVER_BIN : findProgram(name);
}

/** Runs the tests of one recipe. @returns its row. */
function test({ name, page, packages, needs }, env) {
  const versions = packages.map((one) => `\`${one}\` ${versionOf(one)}`).join(', ');
  if (needs !== undefined && programOf(needs) === undefined) return `| ${page} | ${versions} | not run: no ${needs} |`;
  let output;
  try {
    const args = ['--enable-source-maps', '--test', '--test-reporter=tap', `dist/tests/${name}.test.js`];
    output = run(node, args, { env: { ...process.env, ...env, CI: 'true' } });
  } catch (error) {
    failed += 1;
    output = error.message;
    console.error(output);
  }
  const count = (word) => Number(new RegExp(`^# ${word} (\\d+)$`, 'm').exec(output)?.[1] ?? 0);
  const [passed, skipped] = [count('pass'), count('skipped')];
  const lost = count('tests') - passed - skipped;
  return `| ${page} | ${versions} | ${passed}${lost > 0 ? `, ${lost} failed` : ''} |`;
}

let failed = 0;
const started = [];
try {
  if (wanted.length === 0) {
    console.log('npm ci, which takes minutes');
    run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { timeout: INSTALL_LIMIT_MS });
  } else if (!existsSync(join(HOME, 'node_modules'))) {
    throw new Error('The packages are not installed. `npm run test:recipes` installs them.');
  }
  installLibrary();
  compile();
  const env = {};
  const servers = [];
  await startServers(env, servers, started);
  const rows = [];
  for (const recipe of chosen) {
    rows.push(test(recipe, env));
    console.log(rows.at(-1));
  }
  const common = { NestJS: '@nestjs/core', ioredis: 'ioredis', TypeScript: 'typescript' };
  const versions = Object.entries(common).map(([title, name]) => `${title} ${versionOf(name)}`);
  const on = [`Node ${run(node, ['--version']).trim().slice(1)}`, ...versions, ...servers].join(', ');
  if (wanted.length === 0 && failed === 0) await writeTable(on, rows);
} finally {
  for (const server of started) await server.stop();
}
process.exitCode = failed === 0 ? 0 : 1;

async function writeTable(on, rows) {
  const table = ['| page | packages | tests passed |', '| --- | --- | --- |', ...rows].join('\n');
  const [before, , after] = readFileSync(PAGE, 'utf8').split(MARK);
  const text = [before, `\n\nOn ${on}:\n\n${table}\n\n`, after].join(MARK);
  writeFileSync(PAGE, await format(text, { ...(await resolveConfig(PAGE)), filepath: PAGE }));
}
