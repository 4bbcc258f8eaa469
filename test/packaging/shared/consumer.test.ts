import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import * as library from 'nestjs-redis-lock';
import * as fence from 'nestjs-redis-lock/fence';
import * as testing from 'nestjs-redis-lock/testing';
import { checkApp, checkFence, checkTesting, type Library } from './checks.js';

it('locks over HTTP, also beside a second copy of the package', async () => {
  const requireSecond = createRequire(join(process.cwd(), 'second', 'main.js'));
  await checkApp(requireSecond('nestjs-redis-lock') as Library);
});

it('locks in unit tests, without Redis', () => checkTesting());

it('refuses late writes at a fence', () => checkFence());

it('exports the same names as everywhere', () => {
  const names = JSON.parse(readFileSync('public-api.json', 'utf8')) as Record<'root' | 'fence' | 'testing', string[]>;
  expect(new Set(Object.keys(library))).toEqual(new Set(names.root));
  expect(new Set(Object.keys(fence))).toEqual(new Set(names.fence));
  expect(new Set(Object.keys(testing))).toEqual(new Set(names.testing));
});
