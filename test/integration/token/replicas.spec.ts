// What needs a replica is in replicas.slow.spec.ts.
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockReplicationError, type LockService } from 'nestjs-redis-lock';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

describe('replicas: { min: 1 } on a server without replicas', () => {
  afterEach(() => here.admin.acl('SETUSER', 'default', '+@all'));

  const start = (): LockService => here.instance({ replicas: { min: 1, timeoutMs: 500 } });
  const nothingLeft = () =>
    here.clock.advanceUntil('nothing is left locked', async () => (await here.leftovers()).length === 0);

  it('grants no lock, and leaves none behind', async () => {
    const locks = start();
    for (const wanted of ['goods:300', ['goods:300', 'goods:301']] as const) {
      const error: unknown = await here.clock.until(
        locks.tryAcquire(wanted as string).catch((thrown: unknown) => thrown),
      );
      expect(error).toBeInstanceOf(LockReplicationError);
      expect(error).toMatchObject({
        code: 'LOCK_REPLICATION',
        permanent: false,
        message: expect.stringContaining(
          'Too few replicas know of the lock: 0 of 1 (replicas.min) within 500 ms (replicas.timeoutMs).',
        ),
      });
      await nothingLeft();
    }
  });

  it('says what to change if WAIT is refused', async () => {
    await here.admin.acl('SETUSER', 'default', '-wait');
    const locks = start();
    const refused = /NOPERM .*: connect to Redis itself, allow its user WAIT, or leave the `replicas` option out/;
    await expect(here.clock.until(locks.tryAcquire('goods:300'))).rejects.toThrow(refused);
    await nothingLeft();
  });
});
