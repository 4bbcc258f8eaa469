import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Lock, LockConfigError, type LockService, LockTimeoutError } from 'nestjs-redis-lock';
import { scripts } from '../../../lib/stores/quorum/scripts.js';
import { Masters } from '../../support/masters.js';
import { randomFrom } from '../../support/random.js';
import { eventually } from '../../support/redis-locks.js';
import { needWallClocks } from '../../support/server-clock/shim.js';

needWallClocks();

let here: Masters;

beforeAll(async () => {
  here = await Masters.startStopped(3);
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** A server time that no test reaches, in µs. */
const deadline = Date.UTC(2027, 0) * 1_000;

const shared = { mode: 'shared' } as const;
const LONG = { ...shared, ttlMs: 60_000 } as const;

/** Writes another system's exclusive lock to one master. */
const occupy = (master: number) => here.admins[master].set(here.key, 'someone else', 'PX', 60_000);

/** Returns how many owners share goods:300 on each master. */
async function sharers(): Promise<number[]> {
  const values = await Promise.all(here.admins.map((admin) => admin.get(here.key)));
  return values.map((value) => (value?.startsWith('*;') ? value.split(';').length - 2 : 0));
}

const sharedBy = (...counts: readonly number[]): Promise<void> =>
  eventually(`${counts.join(', ')} share it`, async () => String(await sharers()) === String(counts));

const remaining = (master: number): Promise<number> => here.admins[master].pttl(here.key);

/** Runs a script of the store on a master. */
function run(master: number, script: keyof typeof scripts, args: readonly (string | number)[]): Promise<unknown> {
  const { lua, keys } = scripts[script];
  return here.admins[master].eval(lua, keys, ...[here.key, here.fence].slice(0, keys), ...args);
}

describe('readers and writers on a quorum', () => {
  it('let readers of several instances share the lock, and no writer join them', async () => {
    const [one, other, writer] = [await here.instance(), await here.instance(), await here.instance()];
    const readers = [await one.acquire('goods:300', shared), await other.acquire('goods:300', shared)];
    await expect(here.clock.until(writer.acquire('goods:300', { waitMs: 50 }))).rejects.toThrow(LockTimeoutError);
    await sharedBy(2, 2, 2);
    for (const reader of readers) expect(await reader.release()).toBe(true);
    const alone = await writer.acquire('goods:300');
    expect(await one.tryAcquire('goods:300', shared)).toBeNull();
    expect(await alone.release()).toBe(true);
    await here.lockedOn(0);
  });

  it('never overlap with a writer, and the token of a writer is the highest so far', async () => {
    const instances = await Promise.all(Array.from({ length: 4 }, () => here.instance({ waitMs: 60_000 })));
    let [readersNow, writersNow, mostReaders, last, count] = [0, 0, 0, 0, 0];
    const write = (locks: LockService): Promise<void> =>
      locks.using('goods:300', async ({ fencingToken }) => {
        expect([(writersNow += 1), readersNow]).toEqual([1, 0]);
        expect(fencingToken).toBeGreaterThan(last);
        const before = count;
        await here.admins[0].ping();
        [count, last] = [before + 1, Math.max(last, fencingToken)];
        writersNow -= 1;
      });
    const read = (locks: LockService): Promise<void> =>
      locks.using('goods:300', shared, async ({ fencingToken }) => {
        mostReaders = Math.max(mostReaders, (readersNow += 1));
        expect(writersNow).toBe(0);
        await here.admins[0].ping();
        last = Math.max(last, fencingToken);
        readersNow -= 1;
      });
    const visits = instances.flatMap((locks) =>
      Array.from({ length: 20 }, (_, i) => (i % 5 === 0 ? write(locks) : read(locks))),
    );
    here.clock.random = randomFrom(1);
    await here.clock.until(Promise.all(visits));
    expect(count).toBe(16);
    expect(mostReaders).toBeGreaterThan(1);
    await here.lockedOn(0);
  });

  it('have rising tokens if readers come one after the other', async () => {
    const locks = await here.instance({ fairness: 'strict' });
    const tokens: number[] = [];
    for (let i = 0; i < 5; i++) tokens.push((await locks.acquire('goods:300', shared)).fencingToken);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((one, other) => one - other));
  });

  it('have the highest token written back if masters disagree', async () => {
    const [seconds] = (await here.admins[2].time()) as unknown as [string | number];
    await here.admins[2].set(here.fence, String((Number(seconds) + 600) * 1e6));
    // A majority without the master that was ahead must know the token, too.
    const locks = await here.instance({}, { nodes: ['redis://127.0.0.9:1', ...here.urls.slice(1)] });
    const reader = await locks.acquire('goods:300', shared);
    // All three tokens of the block are reserved. By its address the unreachable node has the last one.
    expect(Number(await here.admins[1].get(here.fence)) % 3).toBe(2);
    expect(await reader.release()).toBe(true);
    await here.lockedOn(0);
    const others = await here.instance({}, { nodes: [...here.urls.slice(0, 2), 'redis://127.0.0.1:1'] });
    expect((await others.acquire('goods:300')).fencingToken).toBeGreaterThan(reader.fencingToken);
  });

  it('keep the key of a master for as long as the longest lease', async () => {
    // The readers of one instance have one owner.
    const [brief, long] = [
      await (await here.instance()).acquire('goods:300', { ...shared, ttlMs: 20_000 }),
      await (await here.instance()).acquire('goods:300', LONG),
    ];
    await sharedBy(2, 2, 2);
    expect(await remaining(0)).toBeGreaterThan(50_000);
    await long.release();
    await sharedBy(1, 1, 1);
    expect(await remaining(0)).toBeLessThanOrEqual(20_000);
    expect(await remaining(0)).toBeGreaterThan(10_000);
    await brief.release();
    await here.lockedOn(0);
  });

  it('throw a LockConfigError if permits are requested', async () => {
    await expect((await here.instance()).acquire('goods:300', { permits: 2 })).rejects.toThrow(LockConfigError);
  });

  it('are all listed by inspect, with the rest of their leases', async () => {
    const [locks, elsewhere] = [await here.instance(), await here.instance()];
    await locks.acquire('goods:300', LONG);
    await elsewhere.acquire('goods:300', { ...shared, ttlMs: 20_000 });
    await sharedBy(2, 2, 2);
    const info = await locks.inspect('goods:300');
    const holders = [info, ...(info?.others ?? [])].toSorted((one, two) => Number(two?.isOwn) - Number(one?.isOwn));
    expect(info).toMatchObject({ mode: 'shared', permits: undefined, waiting: [] });
    expect(holders).toMatchObject([
      { isOwn: true, fencingToken: undefined },
      { isOwn: false, fencingToken: undefined },
    ]);
    const [mine, theirs] = holders.map((holder) => holder?.expiresInMs ?? 0);
    expect(mine).toBeGreaterThan(50_000);
    expect(theirs).toBeGreaterThan(10_000);
    expect(theirs).toBeLessThanOrEqual(20_000);
  });
});

describe('a master that has lost a reader', () => {
  /** Acquires two shared locks on all masters. */
  async function twoReaders(): Promise<readonly [Lock, Lock]> {
    const [one, other] = [await here.instance(), await here.instance()];
    const readers = [await one.acquire('goods:300', LONG), await other.acquire('goods:300', LONG)] as const;
    await sharedBy(2, 2, 2);
    return readers;
  }

  it('gets it back beside later readers, with a fence at or above its token', async () => {
    const [reader, second] = await twoReaders();
    await Promise.all([here.admins[2].del(here.key), here.admins[2].del(here.fence)]);
    await reader.extend();
    await sharedBy(2, 2, 1);
    expect(Number(await here.admins[2].get(here.fence))).toBeGreaterThanOrEqual(reader.fencingToken);
    await second.extend();
    await sharedBy(2, 2, 2);
    await second.extend();
    expect(await sharers()).toEqual([2, 2, 2]);
    for (const lock of [reader, second]) expect(await lock.release()).toBe(true);
    await here.lockedOn(0);
  });

  it('does not get it back if another client has an exclusive lock', async () => {
    const [reader] = await twoReaders();
    await occupy(2);
    await reader.extend();
    await reader.extend();
    expect(await here.admins[2].get(here.key)).toBe('someone else');
    expect(await reader.release()).toBe(true);
    expect(await here.admins[2].get(here.key)).toBe('someone else');
  });

  it('does not get a writer back beside readers', async () => {
    const lock = await (await here.instance()).acquire('goods:300', { ttlMs: 60_000 });
    await here.lockedOn(3);
    const strangers = `*;stranger:1 1 1 ${here.clock.wallTime() + 60_000};`;
    await here.admins[2].set(here.key, strangers, 'PX', 60_000);
    await lock.extend();
    await lock.extend();
    expect(await here.admins[2].get(here.key)).toBe(strangers);
    await lock.release();
    expect(await here.admins[2].get(here.key)).toBe(strangers);
  });

  it('makes the reader lost, and no other one, if it is one of a majority', async () => {
    const [reader, other] = await twoReaders();
    for (const master of [0, 1]) {
      const value = String(await here.admins[master].get(here.key));
      const without = value
        .split(';')
        .filter((sharer) => !sharer.startsWith(reader.grant.owner))
        .join(';');
      await here.admins[master].set(here.key, without, 'KEEPTTL');
    }
    await expect(reader.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await other.extend();
    await sharedBy(1, 1, 1);
  });
});

describe('a reader that has left', () => {
  it('is released on a master that was cut off, as soon as it is back', async () => {
    const way = await here.way(0);
    const locks = await here.instance({}, { nodes: [way.url, ...here.urls.slice(1)] });
    const [lock] = [await locks.acquire('goods:300', LONG), await (await here.instance()).acquire('goods:300', LONG)];
    await sharedBy(2, 2, 2);
    await way.refuseConnections();
    way.reset();
    await here.clock.advanceUntil('the outage is reported', () => here.warnings.length > 0);
    expect(await lock.release()).toBe(true);
    await sharedBy(2, 1, 1);
    await way.acceptConnections();
    await sharedBy(1, 1, 1);
  });

  it.each(['requests', 'replies'] as const)(
    'is released if the vote arrives late because %s are held up',
    async (direction) => {
      const way = await here.way(2);
      const locks = await here.instance({}, { nodes: [...here.urls.slice(0, 2), way.url] });
      await locks.using('goods:300', shared, () => sharedBy(1, 1, 1));
      const other = await here.instance({}, { nodes: ['redis://127.0.0.1:1', ...here.urls.slice(1)] });
      const stays = await other.acquire('goods:300', LONG);
      await sharedBy(0, 1, 1);
      await Promise.all([occupy(0), occupy(1)]);
      way.hold(direction);
      expect(await locks.tryAcquire('goods:300', shared)).toBeNull();
      way.resume(direction);
      await eventually('the vote is released', async () => (await sharers())[2] === 1);
      expect(await here.admins[2].get(here.key)).toContain(stays.grant.owner);
    },
  );

  it('is removed when its lease ends, while other readers stay', async () => {
    const locks = await here.instance();
    const dead = await locks.acquire('goods:300', { ...shared, ttlMs: 1_500, renew: false });
    const reader = await (await here.instance()).acquire('goods:300', LONG);
    await sharedBy(2, 2, 2);
    await here.clock.advance(1_500);
    expect(dead.signal.aborted).toBe(true);
    const next = await (await here.instance()).acquire('goods:300', LONG);
    expect(await reader.release()).toBe(true);
    await sharedBy(1, 1, 1);
    expect(await next.release()).toBe(true);
    await here.lockedOn(0);
  });
});

describe('a script that arrives late', () => {
  const value = (): Promise<string | null> => here.admins[0].get(here.key);
  const voteFor = async (owner: string, round: number, until = deadline): Promise<unknown[]> => {
    const vote = (await run(0, 'acquireShared', [owner, round, 60_000, until, 1, 0])) as unknown[];
    return vote.slice(0, 2);
  };

  it('does not restore a reader beside a writer', async () => {
    await occupy(0);
    expect(await run(0, 'restoreShared', ['ann:1 1 5', 5, 60_000, deadline])).toBe(0);
    expect(await run(0, 'writeBackShared', ['ann:1 1', 5, 5])).toBe(0);
    expect(await run(0, 'extendShared', ['ann:1', 60_000])).toBe(0);
    expect(await value()).toBe('someone else');
  });

  it('restores a reader once, and not past the deadline', async () => {
    expect(await run(0, 'restoreShared', ['ann:1 1 5', 5, 60_000, 1])).toBe(0);
    expect(await value()).toBeNull();
    expect(await run(0, 'restoreShared', ['ann:1 1 5', 5, 60_000, deadline])).toBe(1);
    const once = await value();
    expect(await run(0, 'restoreShared', ['ann:1 1 5', 5, 60_000, deadline])).toBe(0);
    expect(await value()).toBe(once);
  });

  it('does not acquire past the deadline or for an earlier round', async () => {
    expect(await voteFor('ann:1', 1, 1)).toEqual([-1, 0]);
    expect(await value()).toBeNull();
    const [, token] = await voteFor('ann:1', 2);
    expect(await voteFor('ann:1', 1)).toEqual([-1, 0]);
    expect(await run(0, 'releaseShared', ['ann:1 1', 0])).toBe(0);
    expect(await value()).toContain(`;ann:1 2 ${String(token)} `);
    expect(await voteFor('ann:1', 3)).toEqual([2, token]);
    expect(await run(0, 'releaseShared', ['ann:1 3', 0])).toBe(1);
    expect(await value()).toBeNull();
  });

  it('removes readers whose leases are over', async () => {
    await run(0, 'acquireShared', ['dead:1', 1, 900, deadline, 1, 0]);
    for (const owner of ['ann:1', 'bob:1']) await voteFor(owner, 1);
    await here.clock.advance(900);
    expect(await run(0, 'extendShared', ['dead:1', 1])).toBe(-1);
    expect(await value()).toContain('dead:1');
    expect(await run(0, 'releaseShared', ['ann:1', 0])).toBe(1);
    expect(await value()).toMatch(/^\*;bob:1 1 \d+ \d+;$/);
  });

  it('does not mistake an owner for another with a similar name', async () => {
    for (const owner of ['ann:1', 'ann:11', 'joann:1']) await voteFor(owner, 1);
    expect(await run(0, 'releaseShared', ['ann:1', 0])).toBe(1);
    expect(await run(0, 'releaseShared', ['ann:1', 0])).toBe(0);
    expect(await value()).toMatch(/^\*;ann:11 1 \d+ \d+;joann:1 1 \d+ \d+;$/);
  });

  it('gives the token of its place and reserves the block', async () => {
    const nodes = 3;
    for (const place of [0, 1, 2]) {
      const proposed = 3e15 + place;
      const [, token] = (await run(0, 'acquireShared', [
        `ann:${place}`,
        1,
        60_000,
        deadline,
        nodes,
        proposed,
      ])) as string[];
      expect(Number(token)).toBe(3e15 + 3 * place + place);
      expect(Number(await here.admins[0].get(here.fence))).toBe(3e15 + 3 * place + 2);
    }
  });

  it('writes a token to its owner and raises the fence', async () => {
    for (const owner of ['ann:1', 'bob:1']) await voteFor(owner, 1);
    const token = Math.ceil(here.clock.wallTime() + 60_000) * 1_000;
    const ttl = await remaining(0);
    expect(await run(0, 'writeBackShared', ['ann:1 1', token, token])).toBe(1);
    expect(await value()).toContain(`;ann:1 1 ${token} `);
    expect(await remaining(0)).toBeLessThanOrEqual(ttl);
    expect(await voteFor('cid:1', 1)).toEqual([1, String(token + 1)]);
  });
});

describe('an older version beside readers', () => {
  it('is refused until the last lease of a reader is over, and changes nothing', async () => {
    const reader = await (await here.instance()).acquire('goods:300', LONG);
    await sharedBy(1, 1, 1);
    const value = await here.admins[0].get(here.key);
    const [status, remainingMs] = (await run(0, 'acquire', ['old:1', 1, 1_000, deadline, 1, 0])) as number[];
    expect(status).toBe(0);
    expect(remainingMs).toBeGreaterThan(50_000);
    expect(await run(0, 'extend', ['old:1', 1_000])).toBe(0);
    expect(await run(0, 'restore', ['old:1 1 5', 5, 1_000, deadline])).toBe(0);
    expect(await run(0, 'writeBack', ['old:1 1', 5, 5])).toBe(0);
    expect(await run(0, 'release', ['old:1', 0])).toBe(0);
    expect(await here.admins[0].get(here.key)).toBe(value);
    expect(await reader.release()).toBe(true);
  });

  it('keeps readers out', async () => {
    for (const master of [0, 1]) await run(master, 'acquire', ['old:1', 1, 60_000, deadline, 1, 0]);
    const locks = await here.instance();
    await expect(here.clock.until(locks.acquire('goods:300', { ...shared, waitMs: 50 }))).rejects.toThrow(
      LockTimeoutError,
    );
    for (const master of [0, 1]) expect(await here.admins[master].get(here.key)).toMatch(/^old:1 1 \d+$/);
    expect(await here.admins[2].exists(here.key)).toBe(0);
  });
});
