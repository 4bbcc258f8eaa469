import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Lock, LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { ClusterContention } from '../../support/cluster-contention.js';
import type { ClusterMember } from '../../support/redis/index.js';
import { redissonCommands } from '../../support/redisson-commands.js';
import { eventually } from '../../support/redis-locks.js';

const NAME = 'account-1';

/** Names on all nodes. One has braces of its own. */
const NAMES = [...Array.from({ length: 8 }, (_, i) => `account-${i}`), '{accounts}:1'];

/** Returns the channel of a lock, as Redisson names it. */
function channelOf(name: string): string {
  return name.includes('{') ? `redisson_lock__channel:${name}` : `redisson_lock__channel:{${name}}`;
}

/** Locks on a cluster of Redis 7, or without sharded channels as before Redis 7. */
class Accounts {
  private constructor(
    readonly here: ClusterContention,
    private readonly sharded: boolean,
  ) {}

  static async start(sharded: boolean, args: readonly string[] = []): Promise<Accounts> {
    return new Accounts(await ClusterContention.start({ replicas: false, args }), sharded);
  }

  instance(options: RedisLockModuleOptions = {}): LockService {
    const patient = { waitMs: 600_000, requestTimeoutMs: 60_000 };
    return this.here.instance({ store: redisson(), key: (resource) => resource, ...patient, ...options });
  }

  /** Returns how many clients have subscribed to the channel of a lock at a node. */
  async listeners({ admin }: ClusterMember, name: string): Promise<number> {
    const kind = this.sharded ? 'SHARDNUMSUB' : 'NUMSUB';
    const [, count] = (await admin.call('PUBSUB', kind, channelOf(name))) as [string, number];
    return count;
  }

  /** Starts to wait for a lock. Resolves when the channel is subscribed. */
  async wait(locks: LockService, name = NAME) {
    const owner = await this.here.cluster.ownerOf(name);
    const before = await this.listeners(owner, name);
    const granted = locks.acquire(name);
    granted.catch(() => undefined);
    await eventually('somebody listens', async () => (await this.listeners(owner, name)) === before + 1);
    return { granted };
  }

  /** Lets two callers wait for locks on one node. A caller that leaves keeps the subscription of the other. */
  async waitForTwo(): Promise<void> {
    const names = ['{accounts}:1', '{accounts}:2'];
    const locks = this.instance();
    for (const name of names) await this.holdAsRedisson(name);
    const owner = await this.here.cluster.ownerOf(names[0]);
    const leaving = new AbortController();
    const left = locks.acquire(names[0], { signal: leaving.signal }).catch(() => 'left');
    const { granted: stays } = await this.wait(locks, names[1]);
    const listening = () => Promise.all(names.map((name) => this.listeners(owner, name)));
    await eventually('both listen', async () => (await listening()).join() === '1,1');
    leaving.abort();
    await left;
    await eventually('one is left', async () => (await listening()).join() === '0,1');
    await owner.admin.del(...names);
    await (await stays).release();
  }

  /** Locks a name as a thread of Redisson does. */
  async holdAsRedisson(name = NAME): Promise<ClusterMember> {
    const owner = await this.here.cluster.ownerOf(name);
    await owner.admin.hincrby(name, '0f0e0d0c-0b0a-4908-8706-050403020100:41', 1);
    await owner.admin.pexpire(name, 600_000);
    return owner;
  }

  /** Subscribes to the messages of a lock, as Redisson does: at the node with the slot, unless another is given. */
  async listenAsRedisson(name: string, at?: ClusterMember): Promise<readonly string[]> {
    const { admin } = at ?? (await this.here.cluster.ownerOf(name));
    const client = admin.duplicate();
    this.closing.push(() => client.disconnect());
    const messages: string[] = [];
    client.on(this.sharded ? 'smessage' : 'message', (_: string, message: string) => messages.push(message));
    if (this.sharded) await client.ssubscribe(channelOf(name));
    else await client.subscribe(channelOf(name));
    return messages;
  }

  async clear(): Promise<void> {
    for (const close of this.closing.splice(0)) close();
    await this.here.clear();
  }

  private readonly closing: (() => void)[] = [];
}

/** Releases the lock. Resolves with the caller that gets it. */
async function handedOver(lock: Lock, granted: Promise<Lock>): Promise<Lock> {
  expect(await lock.release()).toBe(true);
  return granted;
}

describe('locks of redisson() in a cluster', () => {
  let accounts: Accounts;
  let here: ClusterContention;

  beforeAll(async () => {
    accounts = await Accounts.start(true);
    here = accounts.here;
  });
  afterEach(() => accounts.clear());
  afterAll(() => here.close());

  it('are hashes on all nodes, and are renewed there', async () => {
    const [locks, other] = [accounts.instance(), accounts.instance()];
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

  it('keep their tokens in the keys of Redisson', async () => {
    const locks = accounts.instance({ store: redisson({ fencing: true }) });
    for (const name of NAMES) {
      const { admin } = await here.cluster.ownerOf(name);
      const tokenKey = channelOf(name).replace('_lock__channel', '_lock_token');
      await admin.set(tokenKey, 41);
      await locks.using(name, (lock) => expect(lock.fencingToken).toBe(42));
      expect(await admin.get(tokenKey)).toBe('42');
    }
  });

  it('publish on sharded channels alone when they end', async () => {
    const locks = accounts.instance();
    for (const name of NAMES) {
      const sharded = await accounts.listenAsRedisson(name);
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
      const { admin } = await accounts.holdAsRedisson(name);
      const { granted } = await accounts.wait(accounts.instance(), name);
      await admin.del(name);
      await admin.spublish(channelOf(name), message);
      const lock = await granted;
      await lock.release();
    }
    expect(here.warnings).toEqual([]);
  });

  it('pass between instances, on every node', async () => {
    const both = [accounts.instance(), accounts.instance()];
    for (const name of NAMES.slice(0, 5)) {
      let lock = await both[0].acquire(name);
      for (const waiter of both.toReversed()) {
        const { granted } = await accounts.wait(waiter, name);
        lock = await handedOver(lock, granted);
      }
      await lock.release();
    }
    expect(await here.leftovers()).toEqual([]);
    expect(here.warnings).toEqual([]);
  });

  it('have one subscription each', () => accounts.waitForTwo());

  it('leave neither a subscription nor a connection', async () => {
    const name = 'nestjs-redis-lock:handoffs';
    const lock = await accounts.instance().acquire(NAME);
    const { granted } = await accounts.wait(accounts.instance());
    expect(await here.connections(name)).toBe(1);
    const next = await handedOver(lock, granted);
    await eventually('nobody listens', async () => (await here.connections(name)) === 0);
    const { granted: never } = await accounts.wait(accounts.instance());
    await here.end();
    await expect(never).rejects.toMatchObject({ code: 'LOCK_CLOSED' });
    await eventually('all are gone', async () => (await here.connections('nestjs-redis-lock[^ ]*')) === 0);
    await next.release().catch(() => undefined);
  });

  it('need only the permissions in the documentation', async () => {
    const { masters } = here.cluster;
    for (const { admin } of masters) {
      const keys = [`~${NAME}`, `~redisson_lock_token:*`, '&redisson_lock__channel:*'];
      await admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', ...keys, '+info', ...redissonCommands());
      await admin.acl('LOG', 'RESET');
    }
    for (const store of [redisson(), redisson({ fencing: true })]) {
      const [one, other] = [1, 2].map(() =>
        accounts.instance({
          store,
          redis: { nodes: here.cluster.nodes, redisOptions: { username: 'guest', password: 'any' } },
        }),
      );
      const lock = await one.acquire(NAME);
      const { granted } = await accounts.wait(other);
      await lock.extend();
      expect(await one.inspect(NAME)).toMatchObject({ isOwn: true });
      await (await handedOver(lock, granted)).release();
      const owner = await here.cluster.ownerOf(NAME);
      await eventually('nobody listens', async () => (await accounts.listeners(owner, NAME)) === 0);
    }
    const logs = await Promise.all(masters.map(({ admin }) => admin.acl('LOG', '100')));
    const refused = (logs.flat() as readonly (readonly string[])[]).map((entry) => entry[entry.indexOf('object') + 1]);
    // The other commands are those that ioredis sends by itself.
    expect(refused.filter((object) => !/^(?:client|hello)\b/.test(object))).toEqual([]);
    expect(here.warnings).toEqual([]);
    for (const { admin } of masters) await admin.acl('DELUSER', 'guest');
  });

  it.each([{ keyPrefix: 'app:' }, { redisOptions: { keyPrefix: 'app:' } }])(
    'have the prefix of a client with %p in their names',
    async (options) => {
      const [locks, other] = [1, 2].map(() => accounts.instance({ redis: here.client(options) }));
      const lock = await locks.acquire(NAME);
      expect(await here.leftovers()).toEqual(['app:account-1']);
      const owner = await here.cluster.ownerOf('app:account-1');
      const granted = other.acquire(NAME);
      await eventually('it listens', async () => (await accounts.listeners(owner, 'app:account-1')) === 1);
      await (await handedOver(lock, granted)).release();
      const store = redisson({ fencing: true });
      expect(() => accounts.instance({ redis: here.client(options), store })).toThrow(/keyPrefix/);
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

    it('keep owner and count, and are released there', async () => {
      const lock = await accounts.instance().acquire(NAME);
      const fields = await from.admin.hgetall(NAME);
      await here.cluster.migrate(NAME, to);
      await lock.extend();
      expect(await to.admin.hgetall(NAME)).toEqual(fields);
      expect(Object.values(fields)).toEqual(['1']);
      expect(await lock.release()).toBe(true);
      expect(await here.leftovers()).toEqual([]);
    });

    it('are subscribed and published on the new node', async () => {
      const lock = await accounts.instance().acquire(NAME);
      const { granted } = await accounts.wait(accounts.instance());
      await here.cluster.migrate(NAME, to);
      await eventually('it listens there', async () => (await accounts.listeners(to, NAME)) === 1);
      await (await handedOver(lock, granted)).release();
      expect(here.warnings).toEqual([]);
    });

    it('are subscribed on the old node if the slot moves back', async () => {
      const lock = await accounts.instance().acquire(NAME);
      const { granted } = await accounts.wait(accounts.instance());
      await here.cluster.migrate(NAME, to);
      await here.cluster.migrate(NAME, from);
      await eventually('it listens again', async () => (await accounts.listeners(from, NAME)) === 1);
      await (await handedOver(lock, granted)).release();
    });

    it('are acquired by polling if their message is lost', async () => {
      const lock = await accounts.instance().acquire(NAME);
      const { granted } = await accounts.wait(accounts.instance());
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
  let accounts: Accounts;
  let here: ClusterContention;

  beforeAll(async () => {
    const unknown = ['SPUBLISH', 'SSUBSCRIBE', 'SUNSUBSCRIBE'].flatMap((name) => ['--rename-command', name, '']);
    accounts = await Accounts.start(false, unknown);
    here = accounts.here;
  });
  afterEach(() => accounts.clear());
  afterAll(() => here.close());

  it('publish on plain channels, which every node receives', async () => {
    const locks = accounts.instance();
    const received = await Promise.all(here.cluster.masters.map((member) => accounts.listenAsRedisson(NAME, member)));
    await locks.using(NAME, () => undefined);
    await eventually('all messages have arrived', () => received.every(({ length }) => length === 1));
    expect(received).toEqual([['0'], ['0'], ['0']]);
    expect(here.warnings).toEqual([]);
  });

  it('have one subscription each', () => accounts.waitForTwo());

  it('notify waiters on every node', async () => {
    const { admin } = await accounts.holdAsRedisson();
    const { granted } = await accounts.wait(accounts.instance());
    await admin.del(NAME);
    await (await here.cluster.otherThan(NAME)).admin.publish(channelOf(NAME), '0');
    const lock = await granted;
    const again = (await accounts.wait(accounts.instance())).granted;
    await (await handedOver(lock, again)).release();
    await eventually(
      'nobody listens',
      async () => (await accounts.listeners(await here.cluster.ownerOf(NAME), NAME)) === 0,
    );
    expect(here.warnings).toEqual([]);
  });
});

describe('a lock of redisson() in a cluster, whose master', () => {
  let here: ClusterContention;
  let master: ClusterMember;
  let replica: ClusterMember;

  beforeEach(async () => {
    here = await ClusterContention.start();
    master = await here.cluster.ownerOf(NAME);
    replica = here.cluster.replicaOf(master);
  });
  afterEach(async () => {
    if (master.server.pid !== undefined) master.server.resume();
    await here.close();
  });

  const WAYS: Record<string, () => Promise<void>> = {
    'steps down': async () => {
      await replica.admin.cluster('FAILOVER');
    },
    'is killed': async () => {
      await master.server.kill();
      await here.cluster.takeOver(replica);
    },
    'is stopped, with its connections': async () => {
      master.server.pause();
      await here.cluster.takeOver(replica);
    },
  };

  const listeners = async ({ admin }: ClusterMember): Promise<number> => {
    const [, count] = (await admin.call('PUBSUB', 'SHARDNUMSUB', channelOf(NAME))) as [string, number];
    return count;
  };

  it.each(Object.keys(WAYS))('%s keeps owner and count on the replica', async (way) => {
    const [holder, waiter] = [1, 2].map(() =>
      here.instance({ store: redisson(), key: (resource) => resource, ttlMs: 600_000, waitMs: 600_000 }),
    );
    const lock = await holder.acquire(NAME);
    const fields = await master.admin.hgetall(NAME);
    expect(Object.values(fields)).toEqual(['1']);
    const granted = waiter.acquire(NAME);
    await eventually('it listens', async () => (await listeners(master)) === 1);
    expect(await master.admin.wait(1, 60_000)).toBe(1);
    await WAYS[way]();
    const takenOver = async () => (await here.cluster.ownerOf(NAME).catch(() => undefined)) === replica;
    await eventually('the replica has taken over', takenOver);
    await eventually('it listens there', async () => (await listeners(replica)) === 1);
    const renewed = (): Promise<boolean> =>
      lock.extend().then(
        () => true,
        () => false,
      );
    await eventually('it is renewed there', renewed);
    lock.assertHeld();
    expect(await replica.admin.hgetall(NAME)).toEqual(fields);
    expect(await lock.release()).toBe(true);
    await (await granted).release();
    expect(await replica.admin.exists(NAME)).toBe(0);
  });
});
