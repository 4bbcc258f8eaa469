import { execFileSync, spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';

const hasGo = spawnSync('go', ['version']).status === 0;

describe('the models of the judge', () => {
  it('accept good histories and reject bad ones', () => {
    if (!hasGo && process.env['CI'] !== 'true') {
      process.stderr.write('Not tested for want of Go: the models of labs/chaos/judge\n');
      return;
    }
    expect(execFileSync('go', ['test', '-count=1', '.'], { cwd: __dirname, encoding: 'utf8' })).toMatch(/^ok\s/);
  }, 240_000);
});
