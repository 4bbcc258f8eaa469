import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

export const redisSemaphore = {
  name: 'redis-semaphore',
  kind: 'peer',
  waiting: `polls every ${POLL_MS} ms`,
  defaults: '10 ms, for 10 s',
  async open(url, { autoPipelining = false } = {}) {
    const { Mutex } = await import('redis-semaphore');
    const client = await connect(url, { enableAutoPipelining: autoPipelining });
    const options = { lockTimeout: TTL_MS, acquireTimeout: Infinity, retryInterval: POLL_MS };
    return {
      async acquire(key) {
        const mutex = new Mutex(client, key, options);
        await mutex.acquire();
        return mutex;
      },
      release: (mutex) => mutex.release(),
      close: () => client.disconnect(),
    };
  },
};
