import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

/** @param {() => Promise<new (...args: unknown[]) => object>} load */
const redlockOf = (name, load) => ({
  name,
  kind: 'peer',
  waiting: `polls every ${POLL_MS} ms`,
  defaults: '200 ± 100 ms, 10 retries',
  givesUp: (error) => error.name === 'ExecutionError',
  async open(url, { autoPipelining = false, atDefaults = false } = {}) {
    const Redlock = await load();
    const client = await connect(url, { enableAutoPipelining: autoPipelining });
    const locks = new Redlock([client], atDefaults ? {} : { retryCount: -1, retryDelay: POLL_MS, retryJitter: 0 });
    return {
      acquire: (key) => locks.acquire([key], TTL_MS),
      release: (lock) => lock.release(),
      close: () => client.disconnect(),
    };
  },
});

export const redlock = redlockOf('redlock', async () => (await import('redlock')).default);

export const sesamecareRedlock = redlockOf(
  '@sesamecare-oss/redlock',
  async () => (await import('@sesamecare-oss/redlock')).Redlock,
);
