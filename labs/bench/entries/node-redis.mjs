// The floor and this library on a node-redis client, which pipelines the commands of a tick by itself.
import { connectNodeRedis, fromNodeRedis } from '../library.mjs';
import { openRuntime, ours } from './ours.mjs';
import { COMPARE_AND_DELETE, DIGEST, pairOf, raw, SET_OPTIONS } from './raw.mjs';

export const rawNodeRedis = {
  ...raw,
  name: 'raw pair, node-redis',
  async open(url) {
    const client = await connectNodeRedis(url);
    await client.sendCommand(['SCRIPT', 'LOAD', COMPARE_AND_DELETE]);
    return pairOf({
      set: (key, owner) => client.sendCommand(['SET', key, owner, ...SET_OPTIONS]),
      compareAndDelete: (key, owner) => client.sendCommand(['EVALSHA', DIGEST, '1', key, owner]),
      close: () => client.destroy(),
    });
  },
};

export const oursNodeRedis = {
  ...ours,
  name: 'nestjs-redis-lock, node-redis',
  async open(url) {
    const client = await connectNodeRedis(url);
    return openRuntime(fromNodeRedis(client), () => client.destroy());
  },
};
