import { describe, expect, it, jest } from '@jest/globals';
import { DEFENCES } from './defences.js';

describe('each defence', () => {
  it.each(DEFENCES)('can be switched off: what is replaced is there: %s', async (defence) => {
    expect.hasAssertions();
    // It is switched off for good where it is loaded.
    await jest.isolateModulesAsync(async () => {
      const { switchOff } = await import('./defences.js');
      expect(() => switchOff(defence)).not.toThrow();
    });
  });
});
