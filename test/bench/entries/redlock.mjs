import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

export const redlock = {
  name: 'redlock',
  kind: 'peer',
  waiting: `polls every ${POLL_MS} ms`,
  defaults: '200 ± 100 ms, 10 retries',
  async open(url, { autoPipelining = false } = {}) {
    const { default: Redlock } = await import('redlock');
    const client = await connect(url, { enableAutoPipelining: autoPipelining });
    const locks = new Redlock([client], { retryCount: -1, retryDelay: POLL_MS, retryJitter: 0 });
    return {
      acquire: (key) => locks.acquire([key], TTL_MS),
      release: (lock) => lock.release(),
      close: () => client.disconnect(),
    };
  },
};
