// Run by node: `node out/main.js`, in a consumer without jest. It ends by itself, or its test fails.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import * as library from 'nestjs-redis-lock';
import * as fence from 'nestjs-redis-lock/fence';
import * as testing from 'nestjs-redis-lock/testing';
import { checkApp, checkFence, checkTesting, type Library } from './checks.js';

const requireHere = createRequire(join(process.cwd(), 'main.js'));
const requireSecond = createRequire(join(process.cwd(), 'second', 'main.js'));

/** Whoever imports it and whoever requires it get the same classes, or `app.get(LockService)` would find nothing. */
async function checkOneCopy(): Promise<void> {
  const [imported, importedFence, importedTesting] = await Promise.all([
    import('nestjs-redis-lock'),
    import('nestjs-redis-lock/fence'),
    import('nestjs-redis-lock/testing'),
  ]);
  const required = requireHere('nestjs-redis-lock') as Library;
  const requiredFence = requireHere('nestjs-redis-lock/fence') as typeof fence;
  const requiredTesting = requireHere('nestjs-redis-lock/testing') as typeof testing;
  for (const copy of [imported, required]) {
    assert.equal(copy.LockService, library.LockService, 'two copies of the package');
    assert.equal(copy.LockTimeoutError, library.LockTimeoutError);
  }
  for (const copy of [importedFence, requiredFence]) assert.equal(copy.StaleFenceError, fence.StaleFenceError);
  for (const copy of [importedTesting, requiredTesting]) assert.equal(copy.ManualClock, testing.ManualClock);
}

/** Without the `default` that TypeScript adds to a CommonJS namespace. */
function namesOf(namespace: object): string[] {
  return Object.keys(namespace)
    .filter((name) => name !== 'default')
    .toSorted();
}

async function main(): Promise<void> {
  await checkOneCopy();
  await checkTesting();
  await checkFence();
  await checkApp(requireSecond('nestjs-redis-lock') as Library);
  const names = { root: namesOf(library), fence: namesOf(fence), testing: namesOf(testing) };
  process.stdout.write(`exports ${JSON.stringify(names)}\nall checks passed\n`);
}

process.on('unhandledRejection', (reason) => {
  process.exitCode = 1;
  process.stderr.write(`unhandled rejection: ${String(reason)}\n`);
});
main().catch((error: unknown) => {
  process.exitCode = 1;
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
});
