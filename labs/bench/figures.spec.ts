import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';

it('the page on performance has the figures of the results', () => {
  const check = (): Buffer => execFileSync(process.execPath, [join(__dirname, 'readme.mjs'), '--check']);
  expect(check).not.toThrow();
});
