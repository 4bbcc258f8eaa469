import { connect } from '../library.mjs';
import { PERMITS, POLL_MS, TTL_MS } from '../settings.mjs';

const DEFAULT_POLL_MS = 10;
const DEFAULTS = `${DEFAULT_POLL_MS} ms, for 10 s`;

async function openPeer(url, { autoPipelining = false, atDefaults = false } = {}, retryInterval, lockOf) {
  const library = await import('redis-semaphore');
  const client = await connect(url, { enableAutoPipelining: autoPipelining });
  const waiting = atDefaults ? {} : { acquireTimeout: Infinity, retryInterval };
  const options = { lockTimeout: TTL_MS, ...waiting };
  return {
    async acquire(key) {
      const lock = lockOf(library, client, key, options);
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
  defaults: DEFAULTS,
  // Its TimeoutError has the name of a plain error.
  givesUp: (error) => error.constructor.name === 'TimeoutError',
  open: (url, options) =>
    openPeer(url, options, POLL_MS, ({ Mutex }, client, key, terms) => new Mutex(client, key, terms)),
};

const semaphore = (pollMs) => ({
  name: `redis-semaphore, ${pollMs} ms`,
  kind: 'peer',
  waiting: `polls every ${pollMs} ms`,
  defaults: DEFAULTS,
  open: (url, options) =>
    openPeer(url, options, pollMs, ({ Semaphore }, client, key, terms) => new Semaphore(client, key, PERMITS, terms)),
});

/** At its default pause, at the pause of all entries here, and at about the time between two releases. */
export const redisSemaphores = [DEFAULT_POLL_MS, POLL_MS, 1].map(semaphore);
