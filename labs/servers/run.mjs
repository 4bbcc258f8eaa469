// Runs the tests that depend on the server against every version that this machine can get, and prints the results.
// A version that cannot be downloaded is printed, and is an error if it was named. A run of all versions writes the
// table of docs/which-redis.md if nothing failed. A path names a server that is on this machine already.
//   npm run test:servers [-- 'Valkey 8.1' /opt/keydb/bin/keydb-server …]
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { binaryOf, SERVERS } from './binaries.mjs';

const LIMIT_MS = 600_000;

/** Stands before and after the table. */
const MARK = '<!-- npm run test:servers -->';
const PAGE = new URL('../../docs/which-redis.md', import.meta.url).pathname;

/** The contract, waiting and handoff, shared locks, several locks, faults, refused commands, and replicas. */
/** @type {[name: string, args: string[]][]} */
const SUITES = [
  ['contract', ['test/contract/stores.spec.ts', '-t', '^token store']],
  ['handoff', ['test/integration/token/handoff.spec.ts']],
  ['modes', ['shared-mode', 'multi-lock'].map((name) => `test/integration/token/${name}.spec.ts`)],
  ['faults', ['server-faults', 'refused-commands'].map((name) => `test/integration/token/${name}.spec.ts`)],
  ['replicas', ['test/integration/token/replicas.spec.ts']],
];

function versionOf(binary) {
  return /\bv=(\S+)/.exec(execFileSync(binary, ['--version'], { encoding: 'utf8' }))[1];
}

function runSuite(binary, args) {
  const folder = mkdtempSync(join(tmpdir(), 'servers-'));
  const output = join(folder, 'results.json');
  // Keeps the tests from finding another server.
  const env = { ...process.env, REDIS_SERVER_BIN: binary, REDIS_URL: '', DOCKER_HOST: 'unix:///nowhere' };
  try {
    spawnSync('npx', ['jest', '--json', '--outputFile', output, ...args], { env, timeout: LIMIT_MS, stdio: 'ignore' });
    const { numPassedTests, numFailedTests, numRuntimeErrorTestSuites, testResults } = JSON.parse(readFileSync(output));
    const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
    const failed = tests.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName);
    return { passed: numPassedTests, failed: numFailedTests + numRuntimeErrorTestSuites, names: failed };
  } catch (error) {
    return { passed: 0, failed: 1, names: [`no results: ${error.message}`] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const wanted = process.argv.slice(2);
const own = wanted.filter((name) => name.includes('/')).map((path) => ({ name: basename(path), path: resolve(path) }));
const unknown = wanted.filter((name) => !name.includes('/') && !SERVERS.some((server) => server.name === name));
if (unknown.length > 0)
  throw new Error(
    `There is no server ${unknown.join()}. Expected paths, ${SERVERS.map(({ name }) => name).join(', ')}.`,
  );

const lines = [];
let broken = 0;
let missing = 0;
const listed = SERVERS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
for (const server of [...listed, ...own]) {
  let binary;
  try {
    binary = server.path ?? binaryOf(server);
  } catch (error) {
    console.log(`${server.name} is not available here: ${error.message.slice(0, 300)}`);
    lines.push(`| ${server.name} | not available | |`);
    missing += 1;
    if (wanted.length > 0) broken += 1;
    continue;
  }
  const results = SUITES.map(([name, args]) => ({ name, ...runSuite(binary, args) }));
  for (const { name, names } of results) for (const test of names) console.log(`${server.name}, ${name}: ${test}`);
  const failed = results.reduce((sum, one) => sum + one.failed, 0);
  broken += failed;
  const passed = results.reduce((sum, one) => sum + one.passed, 0);
  lines.push(`| ${server.name} | ${versionOf(binary)} | ${passed}${failed > 0 ? `, ${failed} failed` : ''} |`);
  console.log(lines.at(-1));
}

const table = ['| server | version | tests passed |', '| --- | --- | --- |', ...lines].join('\n');
console.log(`\n${table}`);
if (listed.length + own.length === missing) {
  console.log('No server is available here.');
  broken += 1;
}
if (wanted.length === 0 && broken === 0) await writeTable(table);
process.exitCode = broken === 0 ? 0 : 1;

async function writeTable(rows) {
  const page = readFileSync(PAGE, 'utf8');
  const [before, , after] = page.split(MARK);
  const text = [before, `\n\n${rows}\n\n`, after].join(MARK);
  writeFileSync(PAGE, await format(text, { ...(await resolveConfig(PAGE)), filepath: PAGE }));
}
