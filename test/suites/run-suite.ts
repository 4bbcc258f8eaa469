import { afterAll, beforeAll, describe, expect, jest } from '@jest/globals';
import { join } from 'node:path';
import { NotTestedHereError } from '../support/server-clock/shim.js';
import { Leftovers, recordTimers } from './leftovers.js';
import { recordShortLeases, shortLeases } from './short-leases.js';

interface Plan {
  readonly root: string;
  readonly filesOf: (suite: string) => readonly string[];
  readonly isQuick: (file: string) => boolean;
}
const { filesOf, isQuick, root } = require('./plan.cjs') as Plan;

/** Runs the spec files of a suite. */
export function runSuite(name: string): void {
  runFiles(filesOf(name));
}

/** Runs spec files in one environment of jest, so that modules are loaded once. Each file is a block of tests. */
export function runFiles(files: readonly string[]): void {
  recordTimers();
  recordShortLeases();
  describe.each(files)('%s', (file) => {
    const before = { ...process.env };
    let leftovers: Leftovers;
    beforeAll(() => {
      restore(before);
      leftovers = new Leftovers();
    });
    // The module cannot be imported: jest collects tests synchronously.
    try {
      require(join(root, file));
    } catch (error) {
      if (!(error instanceof NotTestedHereError)) throw error;
      process.stderr.write(`Not tested ${error.message}: ${file}\n`);
    }
    afterAll(async () => {
      jest.restoreAllMocks();
      jest.useRealTimers();
      restore(before);
      if (!isQuick(expect.getState().testPath ?? '')) return;
      const short = shortLeases();
      if (short.length > 0) throw new Error(`${file} locks on the clock of the machine with\n  ${short.join('\n  ')}`);
      const left = await leftovers.found();
      if (left.length > 0) throw new Error(`${file} leaves behind:\n  ${left.join('\n  ')}`);
    });
  });
}

function restore(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
}
