// Installs the packed package in applications of other versions, runs them, and writes the tables of docs/upgrading.md.
//   npm run test:versions [-- applications types bun]     runs some of the parts
//     --application lowest --node 20.3                    runs them with these only. May be repeated. Writes no tables.
// It needs about 20 minutes on two cores, a Redis as `npm test` does, and the registry. A Node that cannot be had is
// left out, with a message. The exit code is 1 if something fails.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { format as formatPage, resolveConfig } from 'prettier';
import { nodeOf } from '../bench/nodes.mjs';
import { startRedis } from '../../test/support/redis/index.ts';
import { APPLICATIONS, BUN, COMPILER, COMPILERS, NODES, RESOLUTIONS } from './plan.mjs';
import { compile, FORMATS, install, makeApplication, must, pack, run, versionOf } from './project.mjs';

const PAGE = join(import.meta.dirname, '../../docs/upgrading.md');
const { peerDependencies } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'));
const PARTS = { applications: testApplications, types: testTypes, bun: testBun };

const some = { type: 'string', multiple: true };
const { positionals, values } = parseArgs({ allowPositionals: true, options: { application: some, node: some } });
const isFiltered = Object.keys(values).length > 0;

/** Returns a list of names from the command line, or all of them if it has none. */
function choose(what, given, allowed) {
  const unknown = given.filter((name) => !allowed.includes(name));
  if (unknown.length > 0) throw new Error(`There is no ${what} ${unknown.join()}. Allowed: ${allowed.join(', ')}.`);
  return given.length > 0 ? given : allowed;
}

const parts = choose('part', positionals, Object.keys(PARTS));
const applicationNames = APPLICATIONS.map(({ name }) => name);
const wanted = choose('application', values.application ?? [], applicationNames);
const wantedNodes = choose('Node', values.node ?? [], NODES);

const [lowest] = APPLICATIONS;
for (const [name, range] of Object.entries(peerDependencies)) {
  if (range.startsWith(`^${lowest.packages[name]}`)) continue;
  throw new Error(`${lowest.name} has ${name} ${lowest.packages[name]}. package.json allows ${range}.`);
}

const redis = await startRedis();
const folder = mkdtempSync(join(tmpdir(), 'versions-'));
const failures = [];

/** Returns a function that makes something once for each name. */
function once(make) {
  const made = new Map();
  return (name) => {
    if (!made.has(name)) made.set(name, make(name));
    return made.get(name);
  };
}

const tarball = once(() => pack(folder));

/** Returns the folder of an application, whose code is compiled. */
const application = once((name) => {
  const { packages } = APPLICATIONS.find((one) => one.name === name);
  const made = makeApplication(join(folder, name), packages, tarball());
  for (const format of Object.keys(FORMATS))
    report(`${name}, ${format}: tsc`, compile(compiler(COMPILER), made, format));
  return made;
});

const compilerFolder = once((version) =>
  install(join(folder, `typescript-${version}`), { typescript: `~${version}.0` }),
);
const compiler = (version) => join(compilerFolder(version), 'node_modules/typescript/bin/tsc');

/** Prints an outcome. Returns whether there was no problem. */
function report(what, problems) {
  console.log(problems.length === 0 ? `${what}: ok` : `${what} FAILED\n${problems.join('\n').slice(-3_000)}`);
  if (problems.length > 0) failures.push(what);
  return problems.length === 0;
}

/** Runs an application. Returns whether all its checks passed. */
function passes(what, binary, name, format) {
  const options = { cwd: application(name), env: { TEST_REDIS_URL: redis.url }, timeoutMs: 300_000 };
  const { code, output } = run(binary, [`${format}/out/main.js`], options);
  return report(what, code === 0 && /^all checks passed$/m.test(output) ? [] : [`it ended with ${code}`, output]);
}

const versionsIn = (name) => ['@nestjs/core', 'ioredis', 'redis'].map((one) => versionOf(application(name), one));

/** Returns the binaries of Node that can be had. */
function nodes() {
  return wantedNodes.flatMap((wish) => {
    try {
      const binary = nodeOf(wish);
      return [{ binary, version: must(binary, ['--version']).trim().slice(1) }];
    } catch (error) {
      console.log(`Node ${wish} is not available here: ${error.message.slice(0, 300)}`);
      return [];
    }
  });
}

const isBefore = (one, other) => one.localeCompare(other, 'en', { numeric: true }) < 0;

function testApplications() {
  const binaries = nodes();
  const rows = APPLICATIONS.filter(({ name }) => wanted.includes(name)).map(({ name, lowestNode }) => {
    const cells = binaries.map(({ binary, version }) => {
      if (isBefore(version, lowestNode)) return '–';
      const failed = Object.keys(FORMATS).filter(
        (format) => !passes(`${name}, ${format}, Node ${version}`, binary, name, format),
      );
      return failed.length === 0 ? 'yes' : `no: ${failed.join(', ')}`;
    });
    return [...versionsIn(name), ...cells];
  });
  return [['Nest', 'ioredis', 'node-redis', ...binaries.map(({ version }) => `Node ${version}`)], ...rows];
}

function testTypes() {
  const resolutions = RESOLUTIONS.filter(({ from }) => wanted.includes(from));
  const rows = COMPILERS.map((version) => {
    const tsc = compiler(version);
    const exact = versionOf(compilerFolder(version), 'typescript');
    const failed = resolutions.filter(({ name, from, format, args, deprecated }) => {
      const silence = deprecated && !isBefore(exact, '6.0') ? ['--ignoreDeprecations', '6.0'] : [];
      const all = ['--noEmit', '--skipLibCheck', 'false', ...args, ...silence];
      const problems = compile(tsc, application(from), format, all);
      return !report(`TypeScript ${exact}, ${name}`, problems);
    });
    return [exact, failed.length === 0 ? 'yes' : `no: ${failed.map(({ name }) => name).join(' · ')}`];
  });
  return [['TypeScript', resolutions.map(({ name }) => name).join(' · ')], ...rows];
}

function testBun() {
  const home = install(join(folder, 'bun'), { bun: BUN.version });
  // The package has the binary of each platform as an optional dependency. Its install script would only link it.
  const platform = `${process.platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`;
  const binary = join(home, 'node_modules/@oven', `bun-${platform}`, 'bin/bun');
  chmodSync(binary, 0o755);
  const version = must(binary, ['--version']).trim();
  const applications = BUN.applications.filter((name) => wanted.includes(name));
  const rows = applications.map((name) => {
    const passed = passes(`${name}, Bun ${version}`, binary, name, 'esm');
    return [version, ...versionsIn(name), passed ? 'yes' : 'no'];
  });
  return [['Bun', 'Nest', 'ioredis', 'node-redis', 'all checks pass'], ...rows];
}

/** Replaces the table that stands between two marks with the name of a part. Prints it if it is not complete. */
async function writeTable(part, [head, ...rows]) {
  const table = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  if (isFiltered || failures.length > 0) return console.log(table);
  const mark = `<!-- npm run test:versions (${part}) -->`;
  const [before, , after] = readFileSync(PAGE, 'utf8').split(mark);
  if (after === undefined) throw new Error(`${PAGE} does not have ${mark} before and after the table.`);
  const page = [before, `\n\n${table}\n\n`, after].join(mark);
  writeFileSync(PAGE, await formatPage(page, { ...(await resolveConfig(PAGE)), filepath: PAGE }));
}

try {
  for (const part of parts) await writeTable(part, PARTS[part]());
} finally {
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log(failures.length === 0 ? 'Nothing failed.' : `${failures.length} failed:\n${failures.join('\n')}`);
process.exitCode = failures.length === 0 ? 0 : 1;
