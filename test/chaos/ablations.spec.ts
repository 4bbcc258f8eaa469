import { createHash } from 'node:crypto';
import { describe, expect, it, jest } from '@jest/globals';
import { ABLATIONS } from '../support/chaos/ablations.js';

describe('each ablation', () => {
  // An ablation is permanent in its module registry.
  it.each(ABLATIONS)('finds the code that it replaces: %s', async (ablation) => {
    expect.hasAssertions();
    await jest.isolateModulesAsync(async () => {
      const { switchOff } = await import('../support/chaos/ablations.js');
      await expect(switchOff(ablation)).resolves.toBeUndefined();
    });
  });

  it('edits scripts before their digests are taken', async () => {
    expect.hasAssertions();
    await jest.isolateModulesAsync(async () => {
      const { switchOff } = await import('../support/chaos/ablations.js');
      await switchOff('deadline of requests');
      const { acquireScript } = await import('../../lib/stores/token/token-scripts.js');
      const { scripts } = await import('../../lib/stores/token/scripts.js');
      expect(scripts.acquire.lua).toContain('if false then');
      expect(acquireScript.digest).toBe(createHash('sha1').update(scripts.acquire.lua).digest('hex'));
    });
  });
});
