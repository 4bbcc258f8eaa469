// The floor and this library on a client of node-redis. It pipelines the commands of a tick by itself.
import { createHash, randomUUID } from 'node:crypto';
import { sleep } from '../clock.mjs';
import { connectNodeRedis, fromNodeRedis } from '../library.mjs';
import { POLL_MS } from '../settings.mjs';
import { openRuntime, ours } from './ours.mjs';
import { COMPARE_AND_DELETE, raw, SET_OPTIONS } from './raw.mjs';

export const rawNodeRedis = {
  ...raw,
  name: 'raw pair, node-redis',
  alwaysPipelines: true,
  async open(url) {
    const client = await connectNodeRedis(url);
    await client.sendCommand(['SCRIPT', 'LOAD', COMPARE_AND_DELETE]);
    const digest = createHash('sha1').update(COMPARE_AND_DELETE).digest('hex');
    const id = randomUUID();
    let n = 0;
    return {
      async acquire(key) {
        const owner = `${id}:${++n}`;
        while ((await client.sendCommand(['SET', key, owner, ...SET_OPTIONS])) !== 'OK') await sleep(POLL_MS);
        return { key, owner };
      },
      release: ({ key, owner }) => client.sendCommand(['EVALSHA', digest, '1', key, owner]),
      close: () => client.destroy(),
    };
  },
};

export const oursNodeRedis = {
  ...ours,
  name: 'nestjs-redis-lock, node-redis',
  alwaysPipelines: true,
  async open(url) {
    const client = await connectNodeRedis(url);
    return openRuntime(fromNodeRedis(client), () => client.destroy());
  },
};
