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

/** Returns the key of a resource: `goods:300` → `{lock_goods}:300`, the library's default. */
function keyOf(resource) {
  const end = resource.indexOf(':');
  return `{lock_${resource.slice(0, end)}}${resource.slice(end)}`;
}

/** The scripts of the library, without it. The cost of the library is its difference from this entry. */
export const bare = {
  name: 'our scripts, bare',
  kind: 'floor',
  waiting: `polls every ${POLL_MS} ms`,
  async open(url, { autoPipelining = false } = {}) {
    const client = await connect(url, { enableAutoPipelining: autoPipelining });
    for (const { lua } of Object.values(scripts)) await client.script('LOAD', lua);
    const id = randomBytes(12).toString('base64url');
    let n = 0;
    const call = (digest, key, ...args) => {
      const keys = ['{lock_}|fence', key, `${key}|queue`, `${key}|holders`];
      return client.evalsha(digest, keys.length, ...keys, HANDOFF_LEASE_MS, CHANNELS, NOT_SHARDED, ...args);
    };
    return {
      async acquire(resource) {
        const key = keyOf(resource);
        const entry = `${VERSION}${id}:${++n}`;
        for (;;) {
          const reply = await call(ACQUIRE, key, entry, String(TTL_MS), DO_NOT_WAIT, ABOUT_NOTHING);
          // The token is the whole reply to a granted request.
          if (!Array.isArray(reply)) return { key, entry, token: Number(reply) };
          await sleep(POLL_MS);
        }
      },
      release: ({ key, entry }) => call(RELEASE, key, entry, AT_ONCE),
      tokenOf: ({ token }) => token,
      close: () => client.disconnect(),
    };
  },
};
