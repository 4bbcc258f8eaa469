import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ClusterContention } from '../../support/cluster-contention.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

const UP = { isUp: true, latencyMs: expect.any(Number), error: undefined };
const down = (error: unknown) => ({ isUp: false, latencyMs: undefined, error });

describe('a ping of a cluster', () => {
  it('has every master, and each has to be up', async () => {
    const here = await new ClusterContention({ replicas: false }).start();
    try {
      // A ping asks a master that has ended again, for as long as a request may take.
      const locks = here.instance({ requestTimeoutMs: 10_000 });
      await locks.acquire('goods:300');
      const names = here.cluster.masters.map(({ server }) => `127.0.0.1:${server.port}`);
      const whole = await locks.ping();
      expect(whole).toMatchObject({ isUp: true, handoff: 'subscription', degraded: undefined });
      expect(whole.servers).toEqual(names.map((server) => ({ server, ...UP })));
      await here.cluster.masters[1].server.kill();
      const [first, second, third] = names;
      expect(await locks.ping()).toEqual({
        isUp: false,
        handoff: 'subscription',
        degraded: undefined,
        servers: [
          { server: first, ...UP },
          { server: second, ...down(expect.any(String)) },
          { server: third, ...UP },
        ],
      });
    } finally {
      await here.end();
      await here.close();
    }
  });
});

describe('a ping through Sentinel', () => {
  let set: ReplicaSet;
  const running = new RedisLocks();

  beforeAll(async () => {
    set = await ReplicaSet.start({ replicas: 1, sentinels: 3 });
  });
  afterAll(async () => {
    await running.close();
    await set.close();
  });

  it('names the present master', async () => {
    const locks = running.start({ redis: set.address });
    const serverNow = async (): Promise<string> => (await locks.ping()).servers[0].server;
    await eventually('it is up', async () => (await locks.ping()).isUp);
    const master = await set.master();
    expect(await serverNow()).toBe(`127.0.0.1:${master.port}`);
    await master.kill();
    await eventually('the outage is seen', async () => !(await locks.ping()).isUp);
    await eventually('another master is up', async () => (await locks.ping()).isUp);
    const next = await set.master();
    expect(next).not.toBe(master);
    // The client may reconnect once more, and the group has no server meanwhile.
    await eventually('it is named', async () => (await serverNow()) === `127.0.0.1:${next.port}`);
  });
});
