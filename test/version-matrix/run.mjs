// Installs the packed package in applications of other versions, runs them, and writes the tables of docs/versions.md.
//   npm run test:versions [-- applications types bun]     runs some of the parts
// It needs about half an hour on two cores, a Redis as `npm test` does, and the registry. A version that cannot be had
// is shown as such. The exit code is 1 if something fails that should work.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import semver from 'semver';
import { nodeOf } from '../bench/nodes.mjs';
import { startRedis } from '../support/redis/index.ts';
import { APPLICATIONS, BUN, COMPILER, COMPILERS, NODES, RESOLUTIONS } from './plan.mjs';
import { compile, FORMATS, install, makeApplication, must, pack, refusing, run, versionOf } from './project.mjs';
import { tableOf, writeTable } from './table.mjs';

const PARTS = ['applications', 'types', 'bun'];
const FORMAT_NAMES = { esm: 'ES module', cjs: 'CommonJS' };

const wanted = process.argv.slice(2);
const unknown = wanted.filter((part) => !PARTS.includes(part));
if (unknown.length > 0) throw new Error(`There is no part ${unknown.join()}. Allowed are: ${PARTS.join(', ')}.`);
const isWanted = (part) => wanted.length === 0 || wanted.includes(part);

const redis = await startRedis();
const folder = mkdtempSync(join(tmpdir(), 'versions-'));
const failures = [];
const applications = new Map();
const compilers = new Map();
let tarball;

function fail(what, output) {
  failures.push(what);
  console.log(`${what} FAILED\n${output.slice(-3_000)}`);
  return 'fails';
}

/** Returns the folder of an application, which is made once. */
function application(name) {
  if (!applications.has(name)) {
    const { packages } = APPLICATIONS.find((one) => one.name === name);
    tarball ??= pack(folder);
    applications.set(name, makeApplication(join(folder, name), packages, tarball));
    console.log(`${name} is installed`);
  }
  return applications.get(name);
}

/** Returns the path of a compiler. */
function compiler(version) {
  if (!compilers.has(version)) {
    compilers.set(version, install(join(folder, `typescript-${version}`), { typescript: `~${version}.0` }));
  }
  return join(compilers.get(version), 'node_modules/typescript/bin/tsc');
}

/** Returns the binaries of Node that can be had, by what the plan calls them. */
function nodes() {
  return NODES.flatMap((wish) => {
    try {
      const binary = nodeOf(wish);
      return [{ binary, version: must(binary, ['--version']).trim().slice(1) }];
    } catch (error) {
      console.log(`Node ${wish} is not available here: ${error.message.slice(0, 300)}`);
      return [];
    }
  });
}

/** Runs an application. Returns what the table shows. */
function runOn({ binary, version }, name, format, packages) {
  const cwd = application(name);
  const env = { TEST_REDIS_URL: redis.url };
  const { code, output } = run(binary, [`${format}/out/main.js`], { cwd, env, timeoutMs: 120_000 });
  const what = `${name}, ${FORMAT_NAMES[format]}, Node ${version}`;
  if (code === 0 && /^all checks passed$/m.test(output)) {
    console.log(`${what}: ok`);
    return 'ok';
  }
  const reasons = refusing(cwd, Object.keys(packages), (range) => semver.satisfies(version, range));
  // Node loads ES modules by `require` as of 20.19 and 22.12.
  if (/ERR_REQUIRE_ESM/.test(output)) reasons.push('Nest 12 is an ES module');
  if (reasons.length === 0) return fail(what, output);
  console.log(`${what}: ${reasons.join(', ')}`);
  return 'not supported';
}

/** The cell of a Node and an application, from the outcome of each format. */
function cellOf(outcomes) {
  const inAll = (outcome) => outcomes.every(([, one]) => one === outcome);
  if (inAll('ok')) return 'both';
  if (inAll('not supported')) return '–';
  const shown = outcomes.filter(([, outcome]) => outcome !== 'not supported');
  return shown.map(([format, outcome]) => `${FORMAT_NAMES[format]}${outcome === 'fails' ? ' fails' : ''}`).join(', ');
}

async function testApplications() {
  const binaries = nodes();
  const rows = [];
  for (const { name, packages } of APPLICATIONS) {
    let cells;
    let versions = ['not available', ''];
    try {
      const cwd = application(name);
      versions = ['@nestjs/core', 'ioredis'].map((one) => versionOf(cwd, one));
      for (const format of Object.keys(FORMATS)) {
        const errors = compile(compiler(COMPILER), cwd, format, []);
        if (errors.length > 0) fail(`${name}, ${FORMAT_NAMES[format]}: tsc`, errors.join('\n'));
      }
      cells = binaries.map((node) =>
        cellOf(Object.keys(FORMATS).map((format) => [format, runOn(node, name, format, packages)])),
      );
    } catch (error) {
      cells = binaries.map(() => fail(name, error.message));
    }
    rows.push([...versions, ...cells]);
  }
  return tableOf(['Nest', 'ioredis', ...binaries.map(({ version }) => `Node ${version}`)], rows);
}

async function testTypes() {
  const rows = COMPILERS.map((version) => {
    const tsc = compiler(version);
    const exact = versionOf(compilers.get(version), 'typescript');
    const cells = RESOLUTIONS.map(({ name, from, format, args, deprecated }) => {
      const silence = deprecated && semver.gte(exact, '6.0.0') ? ['--ignoreDeprecations', '6.0'] : [];
      const all = ['--noEmit', '--skipLibCheck', 'false', ...args, ...silence];
      const errors = compile(tsc, application(from), format, all);
      const what = `TypeScript ${exact}, ${name}`;
      if (errors.length > 0) return fail(what, errors.join('\n'));
      console.log(`${what}: ok`);
      return 'yes';
    });
    return [exact, ...cells];
  });
  return tableOf(['TypeScript', ...RESOLUTIONS.map(({ name }) => name)], rows);
}

async function testBun() {
  const home = install(join(folder, 'bun'), { bun: BUN.version });
  // The package has the binary of each platform as an optional dependency. Its install script would only link it.
  const platform = `${process.platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`;
  const binary = join(home, 'node_modules/@oven', `bun-${platform}`, 'bin/bun');
  chmodSync(binary, 0o755);
  const version = must(binary, ['--version']).trim();
  const rows = BUN.applications.map((name) => {
    const cwd = application(name);
    const errors = compile(compiler(COMPILER), cwd, 'esm', []);
    const env = { TEST_REDIS_URL: redis.url };
    const { code, output } = run(binary, ['esm/out/main.js'], { cwd, env, timeoutMs: 120_000 });
    const passed = errors.length === 0 && code === 0 && /^all checks passed$/m.test(output);
    const versions = ['@nestjs/core', 'ioredis'].map((one) => versionOf(cwd, one));
    return [version, ...versions, passed ? 'yes' : fail(`${name}, Bun ${version}`, errors.join('\n') + output)];
  });
  return tableOf(['Bun', 'Nest', 'ioredis', 'all checks pass'], rows);
}

const TESTS = { applications: testApplications, types: testTypes, bun: testBun };

try {
  for (const part of PARTS.filter(isWanted)) {
    const table = await TESTS[part]();
    console.log(`\n${table}\n`);
    await writeTable(part, table);
  }
} finally {
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log(failures.length === 0 ? 'Nothing failed.' : `${failures.length} failed:\n${failures.join('\n')}`);
process.exitCode = failures.length === 0 ? 0 : 1;
