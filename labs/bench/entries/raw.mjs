import { createHash, randomUUID } from 'node:crypto';
import { sleep } from '../clock.mjs';
import { connect } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

export const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
export const DIGEST = createHash('sha1').update(COMPARE_AND_DELETE).digest('hex');

/** What follows the key and the value of SET. */
export const SET_OPTIONS = ['PX', String(TTL_MS), 'NX'];

/** Opens the pair on a client. */
export async function openRaw(client) {
  const nodes = client.isCluster ? client.nodes('master') : [client];
  for (const node of nodes) await node.script('LOAD', COMPARE_AND_DELETE);
  return pairOf({
    set: (key, owner) => client.set(key, owner, ...SET_OPTIONS),
    compareAndDelete: (key, owner) => client.evalsha(DIGEST, 1, key, owner),
    close: () => client.disconnect(),
  });
}

/** Makes an opened entry of the two commands. */
export function pairOf({ set, compareAndDelete, close }) {
  const id = randomUUID();
  let n = 0;
  const acquire = async (key) => {
    const owner = `${id}:${++n}`;
    while ((await set(key, owner)) !== 'OK') await sleep(POLL_MS);
    return { key, owner };
  };
  const release = ({ key, owner }) => compareAndDelete(key, owner);
  return { acquire, release, cycle: async (key) => release(await acquire(key)), close };
}

/** The floor: SET NX PX, and a script that deletes the key if it still has the owner's value. */
export const raw = {
  name: 'raw pair',
  kind: 'floor',
  waiting: `polls every ${POLL_MS} ms`,
  open: async (url, { autoPipelining = false } = {}) =>
    openRaw(await connect(url, { enableAutoPipelining: autoPipelining })),
};
