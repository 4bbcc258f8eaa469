import { createHash, randomUUID } from 'node:crypto';
import { sleep } from '../clock.mjs';
import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

export const COMPARE_AND_DELETE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

/** What follows the key and the value of SET. */
export const SET_OPTIONS = ['PX', String(TTL_MS), 'NX'];

/** Opens the pair on a client. */
export async function openRaw(client) {
  const digest = createHash('sha1').update(COMPARE_AND_DELETE).digest('hex');
  const nodes = client.isCluster ? client.nodes('master') : [client];
  for (const node of nodes) await node.script('LOAD', COMPARE_AND_DELETE);
  const id = randomUUID();
  let n = 0;
  const acquire = async (key) => {
    const owner = `${id}:${++n}`;
    while ((await client.set(key, owner, ...SET_OPTIONS)) !== 'OK') await sleep(POLL_MS);
    return { key, owner };
  };
  const release = ({ key, owner }) => client.evalsha(digest, 1, key, owner);
  return {
    acquire,
    release,
    cycle: async (key) => release(await acquire(key)),
    close: () => client.disconnect(),
  };
}

/** The floor: SET NX PX, and a script that deletes the key if it still has the owner's value. */
export const raw = {
  name: 'raw pair',
  kind: 'floor',
  waiting: `polls every ${POLL_MS} ms`,
  open: async (url, { autoPipelining = false } = {}) =>
    openRaw(await connect(url, { enableAutoPipelining: autoPipelining })),
};
