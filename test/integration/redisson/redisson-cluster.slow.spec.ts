import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { ClusterContention } from '../../support/cluster-contention.js';
import type { ClusterMember } from '../../support/redis/index.js';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';

const NAME = 'account-1';

/** Names on all nodes. One has braces of its own. */
const NAMES = [...Array.from({ length: 8 }, (_, i) => `account-${i}`), '{accounts}:1'];

/** Returns the channel of a lock, as Redisson names it. */
function channelOf(name: string): string {
  return name.includes('{') ? `redisson_lock__channel:${name}` : `redisson_lock__channel:{${name}}`;
}

/** Locks on a cluster of Redis 7, or without sharded channels as before Redis 7. */
class Accounts extends ClusterContention {
  private readonly subscribers: { disconnect(): void }[] = [];

  constructor(
    private readonly sharded: boolean,
    args: readonly string[] = [],
  ) {
    super({ replicas: false, args });
  }

  override instance(options: RedisLockModuleOptions = {}): LockService {
    const patient = { waitMs: 600_000, requestTimeoutMs: 60_000 };
    return super.instance({ store: redisson(), key: (resource) => resource, ...patient, ...options });
  }

  /** Returns how many clients have subscribed to the channel of a lock at a node. */
  async listeners({ admin }: ClusterMember, name: string): Promise<number> {
    const kind = this.sharded ? 'SHARDNUMSUB' : 'NUMSUB';
    const [, count] = (await admin.call('PUBSUB', kind, channelOf(name))) as [string, number];
    return count;
  }

  /** Starts to wait for a lock. Resolves when the channel is subscribed. */
  async wait(locks: LockService, name = NAME) {
    const owner = await this.cluster.ownerOf(name);
    const before = await this.listeners(owner, name);
    const granted = locks.acquire(name);
    granted.catch(() => undefined);
    await eventually('somebody listens', async () => (await this.listeners(owner, name)) === before + 1);
    return { granted };
  }

  /** Locks a name as a thread of Redisson does. */
  async holdAsRedisson(name = NAME): Promise<ClusterMember> {
    const owner = await this.cluster.ownerOf(name);
    await owner.admin.hincrby(name, '0f0e0d0c-0b0a-4908-8706-050403020100:41', 1);
    await owner.admin.pexpire(name, 600_000);
    return owner;
  }

  /** Subscribes to the messages of a lock, as Redisson does: at the node with the slot, unless another is given. */
  async listenAsRedisson(name: string, at?: ClusterMember): Promise<readonly string[]> {
    const { admin } = at ?? (await this.cluster.ownerOf(name));
    const client = admin.duplicate();
    this.subscribers.push(client);
    const messages: string[] = [];
    client.on(this.sharded ? 'smessage' : 'message', (_: string, message: string) => messages.push(message));
    if (this.sharded) await client.ssubscribe(channelOf(name));
    else await client.subscribe(channelOf(name));
    return messages;
  }

  override async clear(): Promise<void> {
    for (const client of this.subscribers.splice(0)) client.disconnect();
    await super.clear();
  }
}

describe('locks of redisson() in a cluster', () => {
  const here = forTests(new Accounts(true));

  it('are hashes on all nodes, and are renewed there', async () => {
    const [locks, other] = [here.instance(), here.instance()];
    const held = await Promise.all(NAMES.map((name) => locks.acquire(name, { ttlMs: 600_000 })));
    const owners = await Promise.all(NAMES.map((name) => here.cluster.ownerOf(name)));
    expect(new Set(owners).size).toBe(3);
    await Promise.all(NAMES.map((name, i) => owners[i].admin.pexpire(name, 300_000)));
    await Promise.all(held.map((lock) => lock.extend()));
    for (const [i, name] of NAMES.entries()) {
      held[i].assertHeld();
      expect(await owners[i].admin.pttl(name)).toBeGreaterThan(300_000);
      expect(await owners[i].admin.hvals(name)).toEqual(['1']);
      expect(await other.tryAcquire(name)).toBeNull();
      expect(await other.inspect(name)).toMatchObject({ isOwn: false });
    }
    expect(await Promise.all(held.map((lock) => lock.release()))).toEqual(held.map(() => true));
    expect(await here.leftovers()).toEqual([]);
    expect(here.warnings).toEqual([]);
  });

  it('publish on sharded channels alone when they end', async () => {
    const locks = here.instance();
    for (const name of NAMES) {
      const sharded = await here.listenAsRedisson(name);
      const { admin } = await here.cluster.ownerOf(name);
      const before = await admin.info('commandstats');
      await locks.using(name, () => undefined);
      await eventually('the message has arrived', () => sharded.length === 1);
      expect(sharded).toEqual(['0']);
      const plain = /cmdstat_publish:\S+/;
      expect(plain.exec(await admin.info('commandstats'))?.[0]).toBe(plain.exec(before)?.[0]);
    }
  });

  it.each(['0', '1'])('go to waiters after the message %s', async (message) => {
    for (const name of NAMES.slice(-3)) {
      const { admin } = await here.holdAsRedisson(name);
      const { granted } = await here.wait(here.instance(), name);
      await admin.del(name);
      await admin.spublish(channelOf(name), message);
      const lock = await granted;
      await lock.release();
    }
    expect(here.warnings).toEqual([]);
  });

  it('have one subscription each, which another caller that leaves does not end', async () => {
    const names = ['{accounts}:1', '{accounts}:2'];
    const locks = here.instance();
    for (const name of names) await here.holdAsRedisson(name);
    const owner = await here.cluster.ownerOf(names[0]);
    const leaving = new AbortController();
    const left = locks.acquire(names[0], { signal: leaving.signal }).catch(() => 'left');
    const { granted: stays } = await here.wait(locks, names[1]);
    const listening = () => Promise.all(names.map((name) => here.listeners(owner, name)));
    await eventually('both listen', async () => (await listening()).join() === '1,1');
    leaving.abort();
    await left;
    await eventually('one is left', async () => (await listening()).join() === '0,1');
    await owner.admin.del(...names);
    await (await stays).release();
  });

  it.each([{ keyPrefix: 'app:' }, { redisOptions: { keyPrefix: 'app:' } }])(
    'have the prefix of a client with %p in their names',
    async (options) => {
      const [locks, other] = [1, 2].map(() => here.instance({ redis: here.client(options) }));
      const lock = await locks.acquire(NAME);
      expect(await here.leftovers()).toEqual(['app:account-1']);
      const owner = await here.cluster.ownerOf('app:account-1');
      const granted = other.acquire(NAME);
      await eventually('it listens', async () => (await here.listeners(owner, 'app:account-1')) === 1);
      expect(await lock.release()).toBe(true);
      await (await granted).release();
      const store = redisson({ fencing: true });
      expect(() => here.instance({ redis: here.client(options), store })).toThrow(/keyPrefix/);
    },
  );

  describe('whose slot moves', () => {
    let from: ClusterMember;
    let to: ClusterMember;

    beforeAll(async () => {
      from = await here.cluster.ownerOf(NAME);
      to = await here.cluster.otherThan(NAME);
    });
    afterEach(async () => {
      if ((await here.cluster.ownerOf(NAME)) === to) await here.cluster.migrate(NAME, from);
    });

    it('are subscribed and published on the new node', async () => {
      const lock = await here.instance().acquire(NAME);
      const { granted } = await here.wait(here.instance());
      await here.cluster.migrate(NAME, to);
      await eventually('it listens there', async () => (await here.listeners(to, NAME)) === 1);
      expect(await lock.release()).toBe(true);
      await (await granted).release();
      expect(here.warnings).toEqual([]);
    });

    it('are acquired by polling if their message is lost', async () => {
      const lock = await here.instance().acquire(NAME);
      const { granted } = await here.wait(here.instance());
      const { moveKeys, finish } = await here.cluster.migration(NAME, to);
      await moveKeys();
      // The message is published before the channel can be subscribed there.
      expect(await lock.release()).toBe(true);
      await (await granted).release();
      await finish();
      expect(here.warnings).toEqual([]);
    });
  });
});

describe('locks of redisson() in a cluster before Redis 7', () => {
  const unknown = ['SPUBLISH', 'SSUBSCRIBE', 'SUNSUBSCRIBE'].flatMap((name) => ['--rename-command', name, '']);
  const here = forTests(new Accounts(false, unknown));

  it('publish on plain channels, which every node receives', async () => {
    const locks = here.instance();
    const received = await Promise.all(here.cluster.masters.map((member) => here.listenAsRedisson(NAME, member)));
    await locks.using(NAME, () => undefined);
    await eventually('all messages have arrived', () => received.every(({ length }) => length === 1));
    expect(received).toEqual([['0'], ['0'], ['0']]);
    expect(here.warnings).toEqual([]);
  });

  it('are polled by waiters, and one line says why', async () => {
    const { admin } = await here.holdAsRedisson();
    const granted = here.instance().acquire(NAME);
    await eventually('the line is logged', () => here.warnings.length > 0);
    await admin.del(NAME);
    await (await granted).release();
    expect(here.warnings).toEqual([expect.stringContaining('need Redis 7')]);
  });
});
