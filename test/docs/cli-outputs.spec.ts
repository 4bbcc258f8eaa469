// Makes the outputs of docs/cli.md, and checks that the page has the same, but for times, tokens and random ids. With
// WRITE_FIGURES=1 it writes them into the page.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { openAdmin } from '../../lib/cli/open-admin.js';
import { run } from '../../lib/cli/run.js';
import { FakeTerminal } from '../support/fake-terminal.js';
import { root } from '../support/pages.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { eventually, RedisLocks } from '../support/redis-locks.js';

const PAGE = join(root, 'docs/cli.md');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

const API = 'api-7f9c-31';
const WORKER = 'worker-5d2b-7';
const GOODS = ['--match', 'goods:*'];

let server: RedisServer;
let running: RedisLocks;
let outputs: Readonly<Record<string, string>>;
let text: string;

beforeAll(async () => {
  server = await startRedis({ local: true });
  running = new RedisLocks();
  outputs = await makeOutputs();
  text = readFileSync(PAGE, 'utf8');
  if (process.env['WRITE_FIGURES'] !== '1') return;
  for (const [name, output] of Object.entries(outputs)) text = withOutput(text, name, output);
  writeFileSync(PAGE, text);
}, 60_000);
afterAll(async () => {
  await running.close();
  await server.stop();
});

it.each(['help', 'list', 'inspect', 'watch', 'release', 'json'])('the page has the output: %s', (name) => {
  expect(shapeOf(outputIn(text, name))).toBe(shapeOf(outputs[name]));
});

/** Runs a command to its end. */
async function cli(args: readonly string[], terminal = new FakeTerminal()): Promise<FakeTerminal> {
  const code = await run(args, { version, env: { REDIS_URL: server.url }, terminal, openAdmin });
  expect([args[0], code, terminal.stderr.text]).toEqual([args[0], 0, '']);
  return terminal;
}

/** Returns what a terminal shows of a command and its output. */
async function shown(line: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await cli([...line.split(' '), ...args]);
  const quoted = args.map((arg) => (/\*/.test(arg) ? `'${arg}'` : arg));
  return `$ npx nestjs-redis-lock ${[line, ...quoted].join(' ')}\n${stdout.text}`;
}

/** Two instances hold locks, and one waits for the other, whose lock is then released by force. */
async function makeOutputs(): Promise<Record<string, string>> {
  const start = (identity: string) =>
    running.start({ redis: server.url, prefix: 'lock_', identity, checks: { server: 'off' } });
  const [api, worker] = [start(API), start(WORKER)];
  await api.acquire('goods:300');
  const next = worker.acquire('goods:300', { waitMs: 60_000 });
  next.catch(() => undefined);
  await api.acquire('menu', { mode: 'shared' });
  await worker.acquire('menu', { mode: 'shared' });
  await worker.acquire('pool', { permits: 3 });
  await eventually('one waits', async () => (await api.inspect('goods:300'))?.waiting.length === 1);
  const before = {
    help: await shown('--help'),
    list: await shown('list'),
    inspect: await shown('inspect goods:300'),
    json: await shown('list --json', ...GOODS),
  };

  const watching = new FakeTerminal();
  const watched = cli(['watch', ...GOODS], watching);
  const untilShown = (what: string) => eventually(`watch shows ${what}`, () => watching.stdout.text.includes(what));
  await untilShown(`held by ${API}`);
  const release = await released();
  const lock = await next;
  await untilShown(`held by ${WORKER}`);
  await lock.release();
  await untilShown('goods:300 free');
  watching.interrupt();
  await watched;
  const watch = `$ npx nestjs-redis-lock watch --match 'goods:*' | cat\n${watching.stdout.text}`;
  return { ...before, watch, release };
}

/** Releases goods:300 on a terminal. Returns what the terminal shows. */
async function released(): Promise<string> {
  const { stdout, questions } = await cli(['release', 'goods:300'], new FakeTerminal(true, ['y']));
  return `$ npx nestjs-redis-lock release goods:300\n${questions[0]}y\n${stdout.text}`;
}

const markOf = (name: string, end: 'start' | 'end'): string => `<!-- output:${name}:${end} -->`;

/** Returns the page with another output between its marks. */
function withOutput(page: string, name: string, output: string): string {
  const [before, rest = ''] = page.split(markOf(name, 'start'));
  const [, after] = rest.split(markOf(name, 'end'));
  if (after === undefined) throw new Error(`${PAGE} has no marks of ${name}`);
  const block = `\`\`\`text\n${output.trimEnd()}\n\`\`\``;
  return `${before}${markOf(name, 'start')}\n\n${block}\n\n${markOf(name, 'end')}${after}`;
}

function outputIn(page: string, name: string): string {
  const [, rest = ''] = page.split(markOf(name, 'start'));
  const [block] = rest.split(markOf(name, 'end'));
  return /```text\n([^]*)```/.exec(block)?.[1] ?? '';
}

/** Replaces what differs between two runs. */
function shapeOf(output: string): string {
  return output
    .trimEnd()
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/\b\d{16}\b/g, 'TOKEN')
    .replaceAll(/\b\d+(?:\.\d+)? m?s\b/g, 'DURATION')
    .replaceAll(new RegExp(`(?<=(?:${API}|${WORKER})-)[\\w-]{16}`, 'g'), 'RANDOM')
    .replaceAll(/(?<="(?:expiresInMs|heldForMs)":)\d+/g, 'MS')
    .replaceAll(/\S+ and 1 other/g, 'NAME and 1 other')
    .replaceAll(/ +/g, ' ');
}
