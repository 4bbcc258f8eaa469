import { afterAll, beforeAll, describe, jest } from '@jest/globals';
import { join } from 'node:path';

const { filesOf, root } = require('./plan.cjs') as { filesOf: (suite: string) => readonly string[]; root: string };

/**
 * Runs the spec files of a suite in one environment of jest, so that modules are loaded once. The tests of each file
 * are below its name.
 */
export function runSuite(name: string): void {
  describe.each(filesOf(name))('%s', (file) => {
    const before = { ...process.env };
    beforeAll(() => {
      restore(before);
    });
    // The module cannot be imported: jest collects tests synchronously.
    require(join(root, file));
    afterAll(() => {
      jest.restoreAllMocks();
      jest.useRealTimers();
      restore(before);
    });
  });
}

function restore(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
}
