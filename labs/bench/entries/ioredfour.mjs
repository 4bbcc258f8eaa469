import { createRequire } from 'node:module';
import { connect } from '../library.mjs';
import { TTL_MS } from '../settings.mjs';

const FOR_EVER = 0;

export const ioredfour = {
  name: 'ioredfour',
  kind: 'peer',
  waiting: 'pub/sub, each release wakes all',
  async open(url, { autoPipelining = false } = {}) {
    const Lock = createRequire(import.meta.url)('ioredfour');
    const client = await connect(url, { enableAutoPipelining: autoPipelining });
    const locks = new Lock({ redis: client });
    return {
      async acquire(key) {
        const lock = await locks.waitAcquireLock(key, TTL_MS, FOR_EVER);
        if (!lock.success) throw new Error('ioredfour gave up waiting');
        return lock;
      },
      release: (lock) => locks.releaseLock(lock),
      close() {
        client.disconnect();
        // It cannot close the connection that it opened itself.
        const { _redisSubscriber: subscriber } = locks;
        subscriber.disconnect();
      },
    };
  },
};
