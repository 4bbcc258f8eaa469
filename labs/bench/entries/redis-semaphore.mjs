import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

async function openPeer(url, { autoPipelining = false, atDefaults = false } = {}) {
  const { Mutex } = await import('redis-semaphore');
  const client = await connect(url, { enableAutoPipelining: autoPipelining });
  const waiting = atDefaults ? {} : { acquireTimeout: Infinity, retryInterval: POLL_MS };
  const options = { lockTimeout: TTL_MS, ...waiting };
  return {
    async acquire(key) {
      const lock = new Mutex(client, key, options);
      await lock.acquire();
      return lock;
    },
    release: (lock) => lock.release(),
    close: () => client.disconnect(),
  };
}

export const redisSemaphore = {
  name: 'redis-semaphore',
  kind: 'peer',
  waiting: `polls every ${POLL_MS} ms`,
  defaults: '10 ms, for 10 s',
  // Its TimeoutError has the name of a plain error.
  givesUp: (error) => error.constructor.name === 'TimeoutError',
  open: openPeer,
};
