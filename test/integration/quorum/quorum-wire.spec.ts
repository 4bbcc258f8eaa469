import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Masters } from '../../support/masters.js';

/** What an instance of the next wire version writes. Only its beginning is known. */
const NEXT = 'v2-api-1-AbCdEfGhIjKlMnOp:7/';

let here: Masters;

beforeAll(async () => {
  here = await Masters.start({}, {}, {});
});
afterEach(() => here.clear());
afterAll(() => here.close());

describe('a quorum that meets the next wire version', () => {
  it('waits for its lock, names both versions, and changes nothing', async () => {
    const locks = await here.instance();
    const values = here.admins.map((_admin, i) => `${NEXT} ${i} *;`);
    await Promise.all(here.admins.map((admin, i) => admin.set(here.key, values[i], 'PX', 60_000)));
    for (const mode of ['exclusive', 'shared'] as const) {
      const message = /^goods:300 is used by api-1 with wire version 2, and this instance has wire version 1: /;
      await expect(locks.acquire('goods:300', { mode, waitMs: 0 })).rejects.toThrow(message);
    }
    await expect(locks.forceRelease('goods:300')).rejects.toThrow(/wire version 2 holds the lock/);
    expect(await locks.inspect('goods:300')).toMatchObject({ identity: 'api-1', wireVersion: 2, isOwn: false });
    expect(await Promise.all(here.admins.map((admin) => admin.get(here.key)))).toEqual(values);
  });
});
