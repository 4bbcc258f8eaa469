import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';

it.each(['readme.mjs', 'sections.mjs'])('the page on performance has the figures of the results: %s', (name) => {
  const check = (): Buffer => execFileSync(process.execPath, [join(__dirname, name), '--check']);
  expect(check).not.toThrow();
});
