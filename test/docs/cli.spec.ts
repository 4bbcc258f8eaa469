// Makes the outputs of docs/observability.md, and checks that the page has the same, but for times, tokens and random
// ids. With WRITE_FIGURES=1 it writes them into the page.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { HELP } from '../../lib/cli/arguments.js';
import { run } from '../../lib/cli/run.js';
import { FakeTerminal } from '../support/fake-terminal.js';
import { root } from '../support/pages.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { eventually, RedisLocks } from '../support/redis-locks.js';

const PAGE = join(root, 'docs/observability.md');
const API = 'api-7f9c-31';
const WORKER = 'worker-5d2b-7';

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

it.each(['list', 'inspect'])('the page has the output: %s', (name) => {
  expect(shapeOf(outputIn(text, name))).toBe(shapeOf(outputs[name]));
});

it('names only options and variables that there are', () => {
  const named = (given: string): string[] => given.match(/(?<![\w-])--[a-z][a-z-]*|\bREDIS_[A-Z_]+\b/g) ?? [];
  const [, section = ''] = /\n## Command line\n([^]*?)\n## /.exec(text) ?? [];
  expect(named(section).length).toBeGreaterThan(5);
  expect(named(section).filter((name) => !named(HELP).includes(name))).toEqual([]);
});

/** Returns what a terminal shows of a command and its output. */
async function shown(line: string): Promise<string> {
  const terminal = new FakeTerminal();
  const code = await run(line.split(' '), { version: '1.2.3', env: { REDIS_URL: server.url }, terminal });
  expect([line, code, terminal.err]).toEqual([line, 0, '']);
  return `$ npx nestjs-redis-lock ${line}\n${terminal.out}`;
}

/** Two instances hold locks, and one waits for the other. */
async function makeOutputs(): Promise<Record<string, string>> {
  const start = (identity: string) => running.start({ redis: server.url, prefix: 'lock_', identity });
  const [api, worker] = [start(API), start(WORKER)];
  const lock = await api.acquire('goods:300');
  const next = worker.acquire('goods:300', { waitMs: 60_000 });
  await api.acquire('menu', { mode: 'shared' });
  await worker.acquire('menu', { mode: 'shared' });
  await worker.acquire('pool', { permits: 3 });
  await eventually('one waits', async () => (await api.inspect('goods:300'))?.waiting.length === 1);
  const found = { list: await shown('list'), inspect: await shown('inspect goods:300') };
  await lock.release();
  await (await next).release();
  return found;
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
    .replaceAll(/\b\d{16}\b/g, 'TOKEN')
    .replaceAll(/\b\d+(?:\.\d+)? m?s\b/g, 'DURATION')
    .replaceAll(new RegExp(`(?<=(?:${API}|${WORKER})-)[\\w-]{16}`, 'g'), 'RANDOM')
    .replaceAll(/\S+ and 1 other/g, 'NAME and 1 other')
    .replaceAll(/ +/g, ' ');
}
