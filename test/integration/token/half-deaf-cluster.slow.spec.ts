import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { ClusterContention } from '../../support/cluster-contention.js';
import { RedisProxy } from '../../support/proxy.js';

let here: ClusterContention;
let proxies: ReadonlyMap<string, RedisProxy>;

beforeEach(async () => {
  here = await new ClusterContention({ replicas: false }).start();
  const open = async (url: string) => [`127.0.0.1:${new URL(url).port}`, await RedisProxy.start(url)] as const;
  proxies = new Map(await Promise.all(here.cluster.masters.map(({ server }) => open(server.url))));
});
afterEach(async () => {
  await here.close();
  await Promise.all([...proxies.values()].map((proxy) => proxy.close()));
});

it('a connection to a node that carries requests and no replies is replaced', async () => {
  const nodes = [...proxies.values()].map(({ port }) => ({ host: '127.0.0.1', port }));
  const natMap = Object.fromEntries([...proxies].map(([at, { port }]) => [at, { host: '127.0.0.1', port }]));
  const locks = here.instance({ redis: { nodes, natMap }, requestTimeoutMs: 100 });
  await locks.using('goods:300', () => undefined);
  const { server } = await here.cluster.ownerOf(here.key);
  proxies.get(`127.0.0.1:${server.port}`)!.swallowReplies();
  const lock = await locks.acquire('goods:300');
  lock.assertHeld();
  expect(await lock.release()).toBe(true);
  expect(await (await here.instance().acquire('goods:300')).release()).toBe(true);
});
