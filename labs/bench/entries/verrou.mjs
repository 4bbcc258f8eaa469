import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

export const verrou = {
  name: 'verrou',
  kind: 'peer',
  waiting: `polls every ${POLL_MS} ms`,
  defaults: '250 ms',
  async open(url, { autoPipelining = false, atDefaults = false } = {}) {
    const { LockFactory } = await import('@verrou/core');
    const { redisStore } = await import('@verrou/core/drivers/redis');
    const client = await connect(url, { enableAutoPipelining: autoPipelining });
    const waiting = atDefaults ? {} : { retry: { attempts: Infinity, delay: POLL_MS } };
    const locks = new LockFactory(redisStore({ connection: client }).factory(), waiting);
    return {
      async acquire(key) {
        const lock = locks.createLock(key, TTL_MS);
        await lock.acquire();
        return lock;
      },
      release: (lock) => lock.release(),
      close: () => client.disconnect(),
    };
  },
};
