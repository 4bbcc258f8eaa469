// Runs the contract of the stores, the tests that depend on the server, and processes that compete for locks, on each
// server and proxy that this machine can get. Prints a table. One that cannot be downloaded is printed, and is an error
// if `--only` named it. A run of all writes the table of docs/which-redis.md if nothing failed.
//   npm run servers [-- --only valkey-9,/opt/keydb/bin/keydb-server,redis://127.0.0.1:6379]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { binaryOf, SERVERS, versionOf } from './binaries.mjs';
import { startProxy, startServer } from './proxies.mjs';

const LIMIT_MS = 1_800_000;
const LINE_EVERY_MS = 30_000;
const ROOT = new URL('../../', import.meta.url).pathname;

/** Stands before and after the table. */
const MARK = '<!-- npm run servers -->';
const PAGE = join(ROOT, 'docs/which-redis.md');

/** Waiting and handoff, shared locks, several locks, faults, refused commands, replicas, and killed processes. */
const TOKEN_SPECS = [
  'handoff.spec.ts',
  'handoff-processes.slow.spec.ts',
  'shared-mode.spec.ts',
  'multi-lock.spec.ts',
  'server-faults.slow.spec.ts',
  'refused-commands.spec.ts',
  'replicas.spec.ts',
].map((name) => `test/integration/token/${name}`);

/** What runs on a server. The last also runs through a proxy, and where the clock of the server cannot be set. */
const PARTS = [
  { name: 'contract', run: ({ binary }) => runSpecs(binary, ['test/contract/stores.spec.ts']) },
  { name: 'token()', run: ({ binary }) => runSpecs(binary, TOKEN_SPECS) },
  { name: 'contention', run: runContention, isEverywhere: true },
];

const say = (line) => process.stderr.write(`${line}\n`);

/** Runs Node without blocking this process. Returns what it printed. */
async function runNode(args, env = process.env) {
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: LIMIT_MS });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return { stdout, stderr };
}

/** Returns the first line of why a test did not pass. Without colours. */
function reasonOf({ status, failureMessages }) {
  const [line = status] = (failureMessages[0] ?? status).split('\n');
  // oxlint-disable-next-line no-control-regex
  return line.replace(/\u001b\[\d+m/g, '').slice(0, 300);
}

async function runSpecs(binary, files) {
  const missing = files.filter((file) => !existsSync(join(ROOT, file)));
  if (missing.length > 0) throw new Error(`there is no ${missing.join(', ')}`);
  const folder = mkdtempSync(join(tmpdir(), 'servers-'));
  const output = join(folder, 'results.json');
  // Keeps the tests from finding another server.
  const env = { ...process.env, REDIS_SERVER_BIN: binary, REDIS_URL: '', DOCKER_HOST: 'unix:///nowhere' };
  try {
    const { stderr } = await runNode(
      ['node_modules/jest/bin/jest.js', '--json', '--outputFile', output, ...files],
      env,
    );
    if (!existsSync(output)) throw new Error(stderr.trim().slice(-300));
    const { testResults } = JSON.parse(readFileSync(output, 'utf8'));
    const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
    const wrong = tests.filter(({ status }) => status !== 'passed');
    const failed = wrong.map((one) => ({ name: one.fullName, error: reasonOf(one) }));
    // A file that could not be loaded has no tests.
    for (const { name, message, assertionResults } of testResults) {
      if (assertionResults.length === 0) failed.push(`${basename(name)} has run no test: ${message.slice(0, 300)}`);
    }
    if (testResults.length !== files.length) failed.push(`${testResults.length} of ${files.length} files have run`);
    return { passed: tests.length - wrong.length, failed, said: [] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runContention({ binary, proxy, behind, url, refuses }) {
  if (url !== undefined) return contend(url, url);
  const place = await (proxy === undefined
    ? startServer(binary)
    : startProxy(proxy, binary, binaryOf(SERVERS.find(({ id }) => id === behind))));
  try {
    return sorted(await contend(place.url, place.behind), refuses);
  } finally {
    await place.stop();
  }
}

async function contend(url, behind) {
  const hooks = join(ROOT, 'test/support/typescript-hooks.mjs');
  const { stdout, stderr } = await runNode(['--import', hooks, join(ROOT, 'labs/servers/contention.ts'), url, behind]);
  if (stdout === '') throw new Error(stderr.trim().slice(-300));
  return JSON.parse(stdout);
}

/** Moves the failures that are known from `failed` to `refused`. What is known to fail and passes is a failure. */
function sorted({ passed, failed, said }, refuses = []) {
  const isKnown = ({ name }) => refuses === 'everything' || refuses.includes(name);
  const wrong = failed.filter((one) => !isKnown(one));
  const known = failed.filter(isKnown);
  const expected = refuses === 'everything' ? known.length + passed : refuses.length;
  if (known.length !== expected) wrong.push({ name: 'what this proxy refuses', error: 'works now: change `refuses`' });
  return { passed, failed: wrong, refused: known, said };
}

/** Returns a row of the table. */
async function rowOf(server) {
  const { url, proxy, isStatic = false } = server;
  let binary;
  try {
    binary = url === undefined ? (server.path ?? binaryOf(server)) : undefined;
  } catch (error) {
    say(`${server.id} is not available here: ${error.message.slice(0, 300)}`);
    return { ...server, version: server.version, isMissing: true };
  }
  const version = url === undefined ? versionOf(binary) : '?';
  const results = [];
  for (const { name, run, isEverywhere = false } of PARTS) {
    if (!isEverywhere && (proxy !== undefined || url !== undefined || isStatic)) continue;
    const startedAt = performance.now();
    const secondsSoFar = () => Math.round((performance.now() - startedAt) / 1_000);
    const timer = setInterval(() => say(`  ${name}, ${secondsSoFar()} s so far`), LINE_EVERY_MS);
    // A part that breaks must not end the run.
    const result = await run({ ...server, binary }).catch((error) => ({
      passed: 0,
      failed: [error.message],
      said: [],
    }));
    const failed = result.failed.map((one) => (typeof one === 'string' ? one : `${one.name}: ${one.error}`));
    results.push({ refused: [], ...result, failed, name });
    clearInterval(timer);
    say(`${server.id} ${version}, ${name}: ${result.passed} passed, ${failed.length} failed, ${secondsSoFar()} s`);
    for (const one of failed) say(`  ${one}`);
  }
  return { ...server, version, results };
}

const cell = (words) => words.replaceAll('|', '\\|').replace(/\s+/g, ' ');

function lineOf({ id, version, isMissing, results = [] }) {
  if (isMissing) return [id, version, 'not available here', ''];
  const ran = results.map(({ name, passed, failed }) => {
    return `${name} ${passed}${failed.length > 0 ? `, ${failed.length} failed` : ''}`;
  });
  const words = new Set(results.flatMap(({ refused, said }) => [...said, ...refused.map(({ error }) => error)]));
  return [id, version, ran.join('; '), words.size === 0 ? 'nothing' : [...words].join('; ')];
}

const {
  values: { only = [] },
} = parseArgs({ options: { only: { type: 'string', multiple: true } } });
const wanted = only.flatMap((list) => list.split(',')).filter(Boolean);
const isNamed = (id) => wanted.some((name) => id === name || id.startsWith(`${name}.`) || id.startsWith(`${name}-`));
const own = wanted.flatMap((name) => {
  if (name.includes('://')) return [{ id: name.replace(/\/\/[^@/]*@/, '//'), url: name }];
  return name.includes('/') ? [{ id: basename(name), path: resolve(name) }] : [];
});
const unknown = wanted.filter(
  (name) => !name.includes('/') && !SERVERS.some(({ id }) => id === name || id.startsWith(name)),
);
if (unknown.length > 0) {
  const ids = SERVERS.map(({ id }) => id).join(', ');
  throw new Error(`There is no server ${unknown.join()}. Expected ${ids}, a path, or a URL.`);
}

const chosen = [...SERVERS.filter(({ id }) => wanted.length === 0 || isNamed(id)), ...own];
const rows = [];
for (const [i, server] of chosen.entries()) {
  say(`${server.id}, ${i + 1} of ${chosen.length}`);
  rows.push(await rowOf(server));
}
const lines = rows.map((row) => `| ${lineOf(row).map(cell).join(' | ')} |`);
const table = ['| server | version | passed | refused |', '| --- | --- | --- | --- |', ...lines].join('\n');
const [tidy, results] = [await formatted(table), rows.flatMap(({ results: of = [] }) => of)];
const passed = results.reduce((sum, one) => sum + one.passed, 0);
const failed = results.reduce((sum, one) => sum + one.failed.length, 0);
const missing = rows.filter(({ isMissing }) => isMissing).length;
const isBroken = failed > 0 || passed === 0 || (wanted.length > 0 && missing > 0);
console.log(`\n${tidy}`);
if (missing > 0) console.log(`${missing} not available here`);
if (wanted.length === 0 && !isBroken && missing === 0) await writeTable(table);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = isBroken ? 1 : 0;

async function formatted(markdown) {
  return format(markdown, { ...(await resolveConfig(PAGE)), filepath: PAGE });
}

async function writeTable(markdown) {
  const parts = readFileSync(PAGE, 'utf8').split(MARK);
  if (parts.length !== 3) say(`The table was not written: ${basename(PAGE)} does not have ${MARK} twice.`);
  else writeFileSync(PAGE, await formatted([parts[0], `\n\n${markdown}\n\n`, parts[2]].join(MARK)));
}
