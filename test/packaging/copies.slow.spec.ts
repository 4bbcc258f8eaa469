// Several copies of the packed package in one process.
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Consumer, packTarball } from './consumer.js';
import { testRedisUrl } from '../support/shared-redis.js';

const root = join(__dirname, '../..');

let folder: string;
let consumer: Consumer;

beforeAll(async () => {
  testRedisUrl();
  folder = await mkdtemp(join(tmpdir(), 'nestjs-redis-lock-copies-'));
  consumer = new Consumer('nest11-cjs', ['copies.mjs'], folder, packTarball(root, folder));
  await consumer.installed();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Adds an install of another version. */
async function addNewer(): Promise<void> {
  const newer = join(folder, 'nest11-cjs/newer/node_modules/nestjs-redis-lock');
  await cp(await consumer.installed(), newer, { recursive: true });
  let replaced = 0;
  for (const name of await readdir(join(newer, 'dist/cjs'), { recursive: true })) {
    if (!name.endsWith('.js')) continue;
    const file = join(newer, 'dist/cjs', name);
    const text = await readFile(file, 'utf8');
    if (!text.includes("const VERSION = '")) continue;
    await writeFile(file, text.replace(/const VERSION = '[^']+'/, "const VERSION = '9.9.9'"));
    replaced += 1;
  }
  expect(replaced).toBe(1);
}

describe('copies of the package in one process', () => {
  it('the ES module, CommonJS and a second install work as one, two versions are an error', async () => {
    await addNewer();
    await cp(join(folder, 'nest11-cjs/src/copies.mjs'), join(folder, 'nest11-cjs/copies.mjs'));
    // Node would load the ES module for `require`, too, as of 20.19.
    const flag = '--experimental-require-module';
    const flags = process.allowedNodeEnvironmentFlags.has(flag) ? ['--no-experimental-require-module'] : [];
    expect(await consumer.node('node copies.mjs', [...flags, 'copies.mjs'])).toContain('all copies work');
  });
});
