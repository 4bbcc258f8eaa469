// Run by node in a consumer: `node out/main.js`. It ends by itself, or its test fails.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import {
  checkApp,
  checkBoard,
  checkFence,
  checkNames,
  checkNodeRedis,
  checkStandalone,
  checkStores,
  checkTesting,
  checkTransactional,
} from './smoke.js';
import { allNames, entries, namesOf } from './entries.js';

const requireHere = createRequire(join(process.cwd(), 'main.js'));

/** `import` and `require` have to load the same classes: `app.get(LockService)` finds nothing otherwise. */
async function checkOneCopy(): Promise<void> {
  for (const [path, namespace] of Object.entries(entries)) {
    const name = `nestjs-redis-lock${path.slice(1)}`;
    const copies = [await import(name), requireHere(name)] as Record<string, unknown>[];
    for (const copy of copies) {
      for (const [exported, value] of Object.entries(namespace)) {
        if (exported !== 'default') assert.equal(copy[exported], value, `${name} is loaded twice: ${exported}`);
      }
      assert.deepEqual(new Set(namesOf(copy)), new Set(namesOf(namespace)));
    }
  }
}

/** As of Node 20.19 and 22.12, `require` loads the ES module of the package, too. */
function requiresModules(): boolean {
  const { require_module: supported } = process.features as { require_module?: boolean };
  return supported === true;
}

async function main(): Promise<void> {
  if (requiresModules()) await checkOneCopy();
  checkNames();
  await checkTesting();
  await checkStores();
  await checkStandalone();
  await checkFence();
  await checkNodeRedis();
  await checkTransactional();
  await checkBoard();
  await checkApp();
  process.stdout.write(`exports ${JSON.stringify(allNames())}\nall checks passed\n`);
}

process.on('unhandledRejection', (reason) => {
  process.exitCode = 1;
  process.stderr.write(`unhandled rejection: ${String(reason)}\n`);
});
main().catch((error: unknown) => {
  process.exitCode = 1;
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
});
