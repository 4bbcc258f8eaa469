import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

export const redlockUniversal = {
  name: 'redlock-universal',
  kind: 'peer',
  waiting: `polls every ${POLL_MS} ms`,
  defaults: '100 ms, 3 retries',
  givesUp: (error) => error.name === 'LockAcquisitionError',
  async open(url, { autoPipelining = false, atDefaults = false } = {}) {
    const { createLock, IoredisAdapter } = await import('redlock-universal');
    const client = await connect(url, { enableAutoPipelining: autoPipelining });
    const adapter = new IoredisAdapter(client);
    const waiting = atDefaults ? {} : { retryAttempts: Number.MAX_SAFE_INTEGER, retryDelay: POLL_MS };
    const options = { adapter, ttl: TTL_MS, ...waiting };
    // One lock object per key: a new one pings the server before its first attempt, a third of its commands.
    const locks = new Map();
    const lockOf = (key) => {
      let lock = locks.get(key);
      if (lock === undefined) locks.set(key, (lock = createLock({ ...options, key })));
      return lock;
    };
    return {
      acquire: (key) => lockOf(key).acquire(),
      release: (handle) => lockOf(handle.key).release(handle),
      close: () => client.disconnect(),
    };
  },
};
