import { describe, expect, it } from '@jest/globals';
import {
  LockConfigError,
  type LockService,
  LockUnavailableError,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { eventually } from '../../support/async.js';
import { begunListing, infosOf, listedBy, restOf } from '../../support/listed.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

const hold = (locks: LockService, resources: readonly string[]): Promise<unknown> =>
  Promise.all(resources.map((resource) => locks.acquire(resource)));

const errorOf = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => error);

describe('a list of locks on one server', () => {
  it('has the locks of all instances, with holders and waiters', async () => {
    const [one, other, far] = ['api-1', 'api-2', 'worker-7'].map((identity) => here.instance({ identity }));
    expect(await listedBy(one)).toEqual([]);
    await far.acquire('goods:300');
    const { granted } = await here.enqueue(() => other.acquire('goods:300'));
    await hold(one, ['goods:301', 'report']);
    for (const locks of [one, other]) await locks.acquire('stock', { mode: 'shared' });
    expect(await infosOf(one.list())).toMatchObject([
      { resource: 'goods:300', key: here.key, isHeld: true, identity: 'worker-7', waiting: [{ identity: 'api-2' }] },
      { resource: 'goods:301', isHeld: true, isOwn: true, mode: 'exclusive', fencingToken: expect.any(Number) },
      { resource: 'report', isHeld: true, identity: 'api-1', others: [], waiting: [] },
      { resource: 'stock', isHeld: true, mode: 'shared', others: [{ identity: expect.stringMatching(/^api-[12]$/) }] },
    ]);
    // Its waiter has not asked again yet.
    await here.admin.del(here.key);
    expect(await infosOf(other.list({ match: 'goods:300' }))).toMatchObject([
      { resource: 'goods:300', isHeld: false, holder: undefined, waiting: [{ identity: 'api-2', isOwn: true }] },
    ]);
    await here.clock.until(granted);
  });

  it.each([
    [undefined, ['goods:300', 'goods:300:red', 'goods:301', 'goods:{30}', 'good*s[1]', 'report'].toSorted()],
    ['goods:*', ['goods:300', 'goods:300:red', 'goods:301', 'goods:{30}']],
    ['goods:30?', []],
    ['*:300*', ['goods:300', 'goods:300:red']],
    ['report', ['report']],
    ['good*s[1]', ['good*s[1]']],
    ['*o*3*1', ['goods:301']],
    ['lock_*', []],
  ])('of the pattern %j has those that match it', async (match, expected) => {
    for (const hashTag of ['family', 'resource'] as const) {
      const locks = here.instance({ hashTag, prefix: `${here.prefix}[${hashTag}]*` });
      await hold(locks, ['goods:300', 'goods:300:red', 'goods:301', 'goods:{30}', 'good*s[1]', 'report']);
      expect(await listedBy(locks, { match, count: 3 })).toEqual(expected);
    }
  });

  it('leaves out the keys of others', async () => {
    const locks = here.instance();
    await hold(locks, ['goods:300']);
    await hold(here.instance({ prefix: `other_${here.prefix}` }), ['goods:301']);
    await hold(here.instance({ hashTag: 'resource' }), ['goods:302']);
    const prefix = here.prefix;
    await here.admin.set(`${prefix}goods:303`, 'a key without braces');
    await here.admin.set(`{${prefix}goods}:304|holder`, 'a helper key of another store');
    await here.admin.hset(`{${prefix}goods}:305`, 'a', 'hash');
    await here.admin.lpush(`{${prefix}goods}:306|queue`, 'a list');
    await here.admin.set(`{${prefix}goods}:307`, 'another system', 'PX', 60_000);
    expect(await infosOf(locks.list())).toMatchObject([
      { resource: 'goods:300', isOwn: true },
      { resource: 'goods:307', isHeld: true, holder: 'another system' },
    ]);
  });

  it.each([{ enableAutoPipelining: true }, { stringNumbers: true }, { keyPrefix: 'a*b:' }])(
    'works with a client with %j',
    async (options) => {
      const client = here.client(options);
      const [one, other] = [1, 2].map(() => here.instance({ redis: client }));
      await hold(one, ['goods:301', 'report']);
      await one.acquire('goods:300', { mode: 'shared' });
      other.acquire('goods:300').catch(() => undefined);
      const seen = async () => (await infosOf(other.list({ match: 'goods:300' })))[0]?.waiting.length;
      await eventually('it waits', async () => (await seen()) === 1);
      expect(await listedBy(one, { count: 2 })).toEqual(['goods:300', 'goods:301', 'report']);
      expect(await infosOf(one.list({ match: 'goods:300' }))).toMatchObject([{ mode: 'shared', waiting: [{}] }]);
    },
  );
});

describe('a list that would not be whole', () => {
  const MANY = Array.from({ length: 200 }, (_, i) => `goods:${i}`);

  it('fails if the connection has ended in between', async () => {
    const locks = here.instance();
    await hold(locks, MANY);
    const listing = await begunListing(locks);
    await here.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const error = await errorOf(restOf(listing));
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect((error as Error).message).toMatch(/listing of locks: /);
    // The next one is a new one.
    expect(await listedBy(locks)).toHaveLength(200);
  });

  it('fails if the server hangs', async () => {
    const locks = here.instance({ requestTimeoutMs: 500 });
    await hold(locks, MANY);
    const listing = await begunListing(locks);
    here.servers.pause();
    const error = await here.clock.until(errorOf(restOf(listing)));
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect((error as Error).message).toContain('no reply within 500 ms');
  });

  it('fails if the user may not SCAN, and says to allow it', async () => {
    const locks = here.instance({ redis: await here.guest('&*', '+@all', '-scan') });
    await hold(locks, ['goods:300']);
    const error = await errorOf(listedBy(locks));
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect(error).toMatchObject({ refusal: 'NOPERM', permanent: true });
    expect((error as Error).message).toMatch(/"Permissions" on the page .* lists what .*'scan'/);
    expect(await locks.inspect('goods:300')).not.toBeNull();
  });
});

describe('a list that is not allowed', () => {
  const refused: readonly [string, RedisLockModuleOptions, object, RegExp][] = [
    ['a key function', { key: (resource) => resource }, {}, /`key` function/],
    ['an empty pattern', {}, { match: '' }, /list\(\): match is ""; expected a pattern over resources/],
    ['a count of 0', {}, { count: 0 }, /list\(\): count is 0; expected a whole number from 1 to 100000/],
    ['an unknown option', {}, { limit: 3 }, /list\(\): unknown option limit/],
  ];

  it.each(refused)('is refused for %s', async (_, options, given, message) => {
    const error = await errorOf(listedBy(here.instance(options), given));
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toMatch(message);
  });
});
