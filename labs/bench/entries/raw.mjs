import { createHash, randomUUID } from 'node:crypto';
import { sleep } from '../clock.mjs';
import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const DIGEST = createHash('sha1').update(COMPARE_AND_DELETE).digest('hex');

/** The floor: SET NX PX, and a script that deletes the key if it still has the owner's value. */
export const raw = {
  name: 'raw pair',
  kind: 'floor',
  waiting: `polls every ${POLL_MS} ms`,
  async open(url, { autoPipelining = false } = {}) {
    const client = await connect(url, { enableAutoPipelining: autoPipelining });
    await client.script('LOAD', COMPARE_AND_DELETE);
    const id = randomUUID();
    let n = 0;
    return {
      async acquire(key) {
        const owner = `${id}:${++n}`;
        while ((await client.set(key, owner, 'PX', TTL_MS, 'NX')) !== 'OK') await sleep(POLL_MS);
        return { key, owner };
      },
      release: ({ key, owner }) => client.evalsha(DIGEST, 1, key, owner),
      close: () => client.disconnect(),
    };
  },
};
