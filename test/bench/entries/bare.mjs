import { createHash, randomBytes } from 'node:crypto';
import { sleep } from '../clock.mjs';
import { connect, scripts } from '../library.mjs';
import { PERMITS, POLL_MS, TTL_MS } from '../settings.mjs';

// The wire protocol, as the headers in lib/stores/token/scripts say it.
const FAR_FUTURE_MICROS = '9000000000000000';
const TOKENS = '17';
/** As the library asks where nobody waits behind. */
const ONE_TOKEN = '1';
const HAND_OFF_LEASE_MS = '3000';
const MAY_NOT_QUEUE = '0';
const AT_ONCE = '0';
const GRANTED = 1;
/** How those who share a lock claim it, behind their owners; those with permits name their number. */
const SHARED = ' *';

const digestOf = ({ lua }) => createHash('sha1').update(lua).digest('hex');
const ASK = digestOf(scripts.acquire);
const RELEASE = digestOf(scripts.release);
const EXTEND = digestOf(scripts.extend);

/** Our own scripts on one connection, without anything of the library around them. */
export async function openScripts(url, { autoPipelining = false, leaseMs = TTL_MS } = {}) {
  const client = await connect(url, { enableAutoPipelining: autoPipelining });
  for (const { lua } of Object.values(scripts)) await client.script('LOAD', lua);
  const lease = String(leaseMs);
  const keysOf = (key) => [key, `${key.slice(0, key.indexOf('}') + 1)}|fence`, `${key}|queue`];
  return {
    client,
    ask: (key, owner) => {
      const keys = keysOf(key);
      return client.evalsha(
        ASK,
        3,
        ...keys,
        owner,
        lease,
        FAR_FUTURE_MICROS,
        ONE_TOKEN,
        MAY_NOT_QUEUE,
        HAND_OFF_LEASE_MS,
      );
    },
    release: (key, owner) => client.evalsha(RELEASE, 3, ...keysOf(key), owner, AT_ONCE, TOKENS, HAND_OFF_LEASE_MS),
    /** The arguments of an EVALSHA that extends a lease. */
    extension: (key, owner) => [EXTEND, 1, key, owner, lease],
  };
}

/** `goods:300` → `{lock_goods}:300`, as the library does it at its defaults. */
export function keyOf(resource) {
  const end = resource.indexOf(':');
  return `{lock_${resource.slice(0, end)}}${resource.slice(end)}`;
}

/** The token, if it was granted: alone where it is the server's time as well. */
function tokenIn(reply) {
  if (!Array.isArray(reply)) return Number(reply);
  const [status, token] = reply;
  return status === GRANTED ? Number(token) : undefined;
}

/** @param {readonly string[]} modes what a claim ends with, in each of the ways to lock */
async function openBare(url, options, modes) {
  const { client, ask, release } = await openScripts(url, options);
  const id = randomBytes(12).toString('base64url');
  let n = 0;
  return {
    async acquire(resource, way = 0) {
      const key = keyOf(resource);
      const claim = `${id}:${++n}${modes[way]}`;
      for (;;) {
        const token = tokenIn(await ask(key, claim));
        if (token !== undefined) return { key, claim, token };
        await sleep(POLL_MS);
      }
    },
    release: ({ key, claim }) => release(key, claim),
    tokenOf: ({ token }) => token,
    close: () => client.disconnect(),
  };
}

/** What the library adds is what ours takes more than this. */
export const bare = {
  name: 'our scripts, bare',
  kind: 'floor',
  waiting: `polls every ${POLL_MS} ms`,
  open: (url, options) => openBare(url, options, ['']),
};

export const bareShared = {
  ...bare,
  name: 'our scripts, bare, shared',
  open: (url, options) => openBare(url, options, [SHARED, '']),
};

export const barePermits = {
  ...bare,
  name: 'our scripts, bare, permits',
  open: (url, options) => openBare(url, options, [` ${PERMITS}`]),
};
