import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import {
  checkApp,
  checkBoard,
  checkFence,
  checkNames,
  checkNodeRedis,
  checkStores,
  checkTesting,
  checkTransactional,
  type Library,
} from './checks.js';
import { allNames } from './entries.js';
import { checkFilters, checkInstrument } from './neighbours.js';

it('locks over HTTP, also beside a second copy of the package', async () => {
  const requireSecond = createRequire(join(process.cwd(), 'second', 'main.js'));
  await expect(checkApp(requireSecond('nestjs-redis-lock') as Library)).resolves.toBeUndefined();
});

it('locks in unit tests, without Redis', async () => {
  await expect(checkTesting()).resolves.toBeUndefined();
});

it('locks with the stores of other entry points', async () => {
  await expect(checkStores()).resolves.toBeUndefined();
});

it('rejects late writes at a fence', async () => {
  await expect(checkFence()).resolves.toBeUndefined();
});

it('locks by node-redis', async () => {
  await expect(checkNodeRedis()).resolves.toBeUndefined();
});

it('keeps locks until a transaction has committed', async () => {
  await expect(checkTransactional()).resolves.toBeUndefined();
});

it('serves a page of live locks', async () => {
  await expect(checkBoard()).resolves.toBeUndefined();
});

it('starts with proxies around providers', async () => {
  await expect(checkInstrument()).resolves.toBeUndefined();
});

it('replies to lock errors behind filters of the application', async () => {
  await expect(checkFilters()).resolves.toBeUndefined();
});

it('exports the committed names', () => {
  const committed = JSON.parse(readFileSync('public-api.json', 'utf8')) as Record<string, string[]>;
  const sets = (names: Record<string, string[]>) => Object.entries(names).map(([entry, all]) => [entry, new Set(all)]);
  expect(sets(allNames())).toEqual(sets(committed));
  expect(checkNames).not.toThrow();
});
