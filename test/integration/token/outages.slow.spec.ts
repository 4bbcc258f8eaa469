import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { eventually } from '../../support/redis-locks.js';

/** Long enough for a machine that does much else. */
const LONG_MS = 120_000;

/** Waits until the instance is connected: it may take longer than unavailableAfterMs on a busy machine. */
const connected = (locks: LockService, resource = 'goods:300'): Promise<void> =>
  eventually('locks are granted', () => locks.using(resource, () => true).catch(() => false));

describe('an outage of one node of a cluster', () => {
  it('concerns only the locks of that node', async () => {
    const here = await new ClusterContention({
      replicas: false,
      args: ['--cluster-require-full-coverage', 'no'],
    }).start();
    try {
      const [down, up] = here.cluster.masters;
      const [away, there] = [await here.familyAt(down), await here.familyAt(up)];
      const locks = here.instance({ waitMs: LONG_MS, unavailableAfterMs: 500 });
      for (const family of [away, there]) await connected(locks, `${family}:1`);
      await down.server.kill();
      await expect(locks.acquire(`${away}:1`)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
      const calls = Array.from({ length: 200 }, (_, id) => locks.acquire(`${away}:${id}`).catch(({ code }) => code));
      for (let id = 0; id < 50; id++) await locks.using(`${there}:${id}`, { waitMs: 0 }, () => undefined);
      expect(new Set(await Promise.all(calls))).toEqual(new Set(['LOCK_UNAVAILABLE']));
      const refusal = (): Promise<string> => locks.acquire(`${away}:2`).then(String, ({ message }) => message);
      const said = 'Redis has been unreachable for';
      await eventually('a call fails at once', async () => (await refusal()).includes(said));
    } finally {
      await here.close();
    }
  });
});
