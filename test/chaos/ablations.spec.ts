import { createHash } from 'node:crypto';
import { describe, expect, it, jest } from '@jest/globals';
import { DEFENCES } from './ablations.js';

describe('each defence', () => {
  // It is switched off for good where it is loaded.
  it.each(DEFENCES)('can be switched off: what is replaced is there: %s', async (defence) => {
    expect.hasAssertions();
    await jest.isolateModulesAsync(async () => {
      const { switchOff } = await import('./ablations.js');
      await expect(switchOff(defence)).resolves.toBeUndefined();
    });
  });

  it('is switched off before the scripts are read: they go by the digests of what they are then', async () => {
    expect.hasAssertions();
    await jest.isolateModulesAsync(async () => {
      const { switchOff } = await import('./ablations.js');
      await switchOff('deadline of asks');
      const { acquireScript } = await import('../../lib/stores/token/token-scripts.js');
      const { scripts } = await import('../../lib/stores/token/scripts.js');
      expect(scripts.acquire.lua).toContain('if false then');
      expect(acquireScript.digest).toBe(createHash('sha1').update(scripts.acquire.lua).digest('hex'));
    });
  });
});
