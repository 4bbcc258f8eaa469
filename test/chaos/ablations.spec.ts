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
      const { RedisScript } = await import('../../lib/redis/redis-script.js');
      const taken: string[] = [];
      const set = (digest: string): void => {
        taken.push(digest);
      };
      Object.defineProperty(RedisScript.prototype, 'digest', { set });
      const { switchOff } = await import('../support/chaos/ablations.js');
      await switchOff('tokens above the last');
      expect(taken).toEqual([]);
      await import('../../lib/stores/token/token.store.js');
      const { scripts } = await import('../../lib/stores/token/scripts.js');
      const { lua } = scripts.acquire;
      expect(lua).toContain('if false then');
      expect(taken).toContain(createHash('sha1').update(lua).digest('hex'));
    });
  });
});
