import { createHash, randomBytes } from 'node:crypto';
import { sleep } from '../clock.mjs';
import { connect, scripts } from '../library.mjs';
import { POLL_MS, TTL_MS } from '../settings.mjs';

// The wire protocol, as in the headers of lib/stores/token/scripts.
const VERSION = 'v2-';
const HANDOFF_LEASE_MS = '1200';
const CHANNELS = 'lock|';
const NOT_SHARDED = '0';
const DO_NOT_WAIT = '0';
const AT_ONCE = '0';
const ABOUT_NOTHING = '';

const digestOf = ({ lua }) => createHash('sha1').update(lua).digest('hex');
const ACQUIRE = digestOf(scripts.acquire);
const RELEASE = digestOf(scripts.release);
const EXTEND = digestOf(scripts.extend);

/** Opens the scripts of the library on one connection, without the library. */
export async function openScripts(url, { autoPipelining = false, leaseMs = TTL_MS } = {}) {
  const client = await connect(url, { enableAutoPipelining: autoPipelining });
  for (const { lua } of Object.values(scripts)) await client.script('LOAD', lua);
  const lease = String(leaseMs);
  const keysOf = (key) => ['{lock_}|fence', key, `${key}|queue`, `${key}|holders`];
  const call = (digest, key, ...args) =>
    client.evalsha(digest, 4, ...keysOf(key), HANDOFF_LEASE_MS, CHANNELS, NOT_SHARDED, ...args);
  return {
    client,
    acquire: (key, owner) => call(ACQUIRE, key, VERSION + owner, lease, DO_NOT_WAIT, ABOUT_NOTHING),
    release: (key, owner) => call(RELEASE, key, VERSION + owner, AT_ONCE),
    /** Returns the arguments of an EVALSHA that extends a lease. */
    extension: (key, owner) => [EXTEND, 1, key, VERSION + owner, lease],
  };
}

/** Returns the key of a resource: `goods:300` → `{lock_goods}:300`, the library's default. */
export function keyOf(resource) {
  const end = resource.indexOf(':');
  return `{lock_${resource.slice(0, end)}}${resource.slice(end)}`;
}

/** Returns the token, which is the whole reply to a granted request. */
function tokenIn(reply) {
  return Array.isArray(reply) ? undefined : Number(reply);
}

async function openBare(url, options) {
  const { client, acquire, release } = await openScripts(url, options);
  const id = randomBytes(12).toString('base64url');
  let n = 0;
  return {
    async acquire(resource) {
      const key = keyOf(resource);
      const entry = `${id}:${++n}`;
      for (;;) {
        const token = tokenIn(await acquire(key, entry));
        if (token !== undefined) return { key, entry, token };
        await sleep(POLL_MS);
      }
    },
    release: ({ key, entry }) => release(key, entry),
    tokenOf: ({ token }) => token,
    close: () => client.disconnect(),
  };
}

/** The cost of the library is its difference from this entry. */
export const bare = {
  name: 'our scripts, bare',
  kind: 'floor',
  waiting: `polls every ${POLL_MS} ms`,
  open: openBare,
};
