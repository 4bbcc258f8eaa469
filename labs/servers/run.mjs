// Runs the contract of the stores, the tests that depend on the server, and processes that compete for locks, on each
// server and proxy that this machine can get. Keeps the last result of each in results/, and writes the table of all
// results to docs/which-redis.md. One that cannot be downloaded is printed, and is an error if `--only` named it.
//   npm run servers [-- --only valkey-9,/opt/keydb/bin/keydb-server,redis://127.0.0.1:6379]
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { binaryOf, SERVERS, versionOf } from './binaries.mjs';
import { startProxy, startServer } from './proxies.mjs';

const LIMIT_MS = 900_000;
const LINE_EVERY_MS = 30_000;
const ROOT = new URL('../../', import.meta.url).pathname;

/** Stands before and after the table. */
const MARK = '<!-- npm run servers -->';
const PAGE = join(ROOT, 'docs/which-redis.md');
const RESULTS = join(ROOT, 'labs/servers/results');

/** Waiting and handoff, shared locks, several locks, faults, refused commands, replicas, and killed processes. */
const TOKEN_SPECS = [
  'locks/handoff.spec.ts',
  'locks/multi-lock.spec.ts',
  'locks/renewal.spec.ts',
  'locks/shared.spec.ts',
  'locks/waiting.spec.ts',
  'integration/token/handoff.spec.ts',
  'integration/token/handoff-processes.slow.spec.ts',
  'integration/token/shared-mode.spec.ts',
  'integration/token/multi-lock.spec.ts',
  'integration/token/server-faults.slow.spec.ts',
  'integration/token/refused-commands.spec.ts',
  'integration/token/replicas.spec.ts',
].map((name) => `test/${name}`);

/** What runs on a server. The first also runs through a proxy, and where the clock of the server cannot be set. */
const PARTS = [
  { name: 'contention', run: runContention, isEverywhere: true },
  { name: 'contract', run: ({ binary }) => runSpecs(binary, ['test/contract/stores.spec.ts']) },
  { name: 'token()', run: ({ binary }) => runSpecs(binary, TOKEN_SPECS) },
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

/** Returns what passed and failed on a server. */
async function resultOf(server) {
  const { url, proxy, isStatic = false } = server;
  let binary;
  try {
    binary = url === undefined ? (server.path ?? binaryOf(server)) : undefined;
  } catch (error) {
    say(`${server.id} is not available here: ${error.message.slice(0, 300)}`);
    return { isMissing: true, results: [] };
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
  return { version, date: new Date().toISOString().slice(0, 10), commit: commit(), results };
}

/** Returns the commit that runs, with a plus if the files that matter have changed since. */
function commit() {
  const git = (...args) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  return git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', 'lib', 'test') === '' ? '' : '+');
}

const cell = (words) => words.replaceAll('|', '\\|').replace(/\s+/g, ' ');

/** Returns the cells of a server in the table. */
function cellsOf({ id, isStatic = false }, { version, date, results }) {
  const sum = (list) => list.reduce((total, one) => total + one, 0);
  const failed = sum(results.map((one) => one.failed.length));
  const counts = [
    String(sum(results.map((one) => one.passed))),
    failed > 0 ? `, ${failed} failed` : '',
    isStatic ? ' (its clock cannot be set)' : '',
  ];
  const refused = results.flatMap((one) => one.refused.map(({ name }) => name));
  const said = results.flatMap((one) => one.said);
  const isAll = refused.length > 0 && results.every(({ passed }) => passed === 0);
  const name = id.replace(/-.*/, '').replace(/^./, (letter) => letter.toUpperCase());
  return [
    `${name} ${version}`,
    date,
    counts.join(''),
    isAll ? 'everything' : (refused.length > 0 ? refused : said).join('; '),
  ];
}

const fileOf = (id) => join(RESULTS, `${id}.json`);

/** Returns the table of the results that are kept. */
function tableOfAll() {
  const kept = SERVERS.filter(({ id }) => existsSync(fileOf(id)));
  const lines = kept.map((server) => cellsOf(server, JSON.parse(readFileSync(fileOf(server.id), 'utf8'))));
  const head = ['server', 'run on', 'passed', 'refused'];
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.map(cell).join(' | ')} |`).join('\n');
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
const startedAt = performance.now();
let [passed, failed, missing] = [0, 0, 0];
for (const [i, server] of chosen.entries()) {
  say(`${server.id}, ${i + 1} of ${chosen.length}, after ${Math.round((performance.now() - startedAt) / 60_000)} min`);
  const result = await resultOf(server);
  for (const one of result.results) [passed, failed] = [passed + one.passed, failed + one.failed.length];
  if (result.isMissing) missing += 1;
  else if (SERVERS.includes(server)) await keep(server.id, result);
}
if (missing > 0) say(`${missing} not available here`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed + missing === 0 || (wanted.length > 0 && missing > 0) ? 1 : 0;

async function formatted(content, path) {
  return format(content, { ...(await resolveConfig(path)), filepath: path });
}

/** Replaces the last result of a server, and writes the table. */
async function keep(id, result) {
  mkdirSync(RESULTS, { recursive: true });
  writeFileSync(fileOf(id), await formatted(JSON.stringify(result), fileOf(id)));
  const parts = readFileSync(PAGE, 'utf8').split(MARK);
  if (parts.length !== 3) throw new Error(`${basename(PAGE)} does not have ${MARK} twice`);
  writeFileSync(PAGE, await formatted([parts[0], `\n\n${tableOfAll()}\n\n`, parts[2]].join(MARK), PAGE));
}
