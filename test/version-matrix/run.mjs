// Installs the packed package in applications of other versions, runs them, and writes the tables of docs/versions.md.
//   npm run test:versions [-- applications types bun]     runs some of the parts
// It needs about 20 minutes on two cores, a Redis as `npm test` does, and the registry. A Node that cannot be had is
// left out, with a message. The exit code is 1 if something fails.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { format as formatPage, resolveConfig } from 'prettier';
import { nodeOf } from '../bench/nodes.mjs';
import { startRedis } from '../support/redis/index.ts';
import { APPLICATIONS, BUN, COMPILER, COMPILERS, NODES, RESOLUTIONS } from './plan.mjs';
import { compile, FORMATS, install, makeApplication, must, pack, run, versionOf } from './project.mjs';

const PAGE = join(import.meta.dirname, '../../docs/versions.md');
const PARTS = { applications: testApplications, types: testTypes, bun: testBun };

const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(PARTS);
const unknown = wanted.filter((part) => !(part in PARTS));
if (unknown.length > 0)
  throw new Error(`There is no part ${unknown.join()}. Allowed: ${Object.keys(PARTS).join(', ')}.`);

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

const versionsIn = (name) => ['@nestjs/core', 'ioredis'].map((one) => versionOf(application(name), one));

/** Returns the binaries of Node that can be had. */
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

const isBefore = (one, other) => one.localeCompare(other, 'en', { numeric: true }) < 0;

function testApplications() {
  const binaries = nodes();
  const rows = APPLICATIONS.map(({ name, lowestNode }) => {
    const cells = binaries.map(({ binary, version }) => {
      if (isBefore(version, lowestNode)) return '–';
      const failed = Object.keys(FORMATS).filter(
        (format) => !passes(`${name}, ${format}, Node ${version}`, binary, name, format),
      );
      return failed.length === 0 ? 'yes' : `no: ${failed.join(', ')}`;
    });
    return [...versionsIn(name), ...cells];
  });
  return [['Nest', 'ioredis', ...binaries.map(({ version }) => `Node ${version}`)], ...rows];
}

function testTypes() {
  const rows = COMPILERS.map((version) => {
    const tsc = compiler(version);
    const exact = versionOf(compilerFolder(version), 'typescript');
    const cells = RESOLUTIONS.map(({ name, from, format, args, deprecated }) => {
      const silence = deprecated && !isBefore(exact, '6.0') ? ['--ignoreDeprecations', '6.0'] : [];
      const all = ['--noEmit', '--skipLibCheck', 'false', ...args, ...silence];
      const problems = compile(tsc, application(from), format, all);
      return report(`TypeScript ${exact}, ${name}`, problems) ? 'yes' : 'no';
    });
    return [exact, ...cells];
  });
  return [['TypeScript', ...RESOLUTIONS.map(({ name }) => name)], ...rows];
}

function testBun() {
  const home = install(join(folder, 'bun'), { bun: BUN.version });
  // The package has the binary of each platform as an optional dependency. Its install script would only link it.
  const platform = `${process.platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`;
  const binary = join(home, 'node_modules/@oven', `bun-${platform}`, 'bin/bun');
  chmodSync(binary, 0o755);
  const version = must(binary, ['--version']).trim();
  const rows = BUN.applications.map((name) => {
    const passed = passes(`${name}, Bun ${version}`, binary, name, 'esm');
    return [version, ...versionsIn(name), passed ? 'yes' : 'no'];
  });
  return [['Bun', 'Nest', 'ioredis', 'all checks pass'], ...rows];
}

/** Replaces the table that stands between two marks with the name of a part. */
async function writeTable(part, [head, ...rows]) {
  const mark = `<!-- npm run test:versions (${part}) -->`;
  const [before, , after] = readFileSync(PAGE, 'utf8').split(mark);
  if (after === undefined) throw new Error(`${PAGE} does not have ${mark} before and after the table.`);
  const table = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  const page = [before, `\n\n${table}\n\n`, after].join(mark);
  writeFileSync(PAGE, await formatPage(page, { ...(await resolveConfig(PAGE)), filepath: PAGE }));
}

try {
  for (const part of wanted) await writeTable(part, PARTS[part]());
} finally {
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log(failures.length === 0 ? 'Nothing failed.' : `${failures.length} failed:\n${failures.join('\n')}`);
process.exitCode = failures.length === 0 ? 0 : 1;
