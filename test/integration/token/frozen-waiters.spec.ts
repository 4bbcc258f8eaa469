// The twin on the memory store is in test/locks/waiting.spec.ts.
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-redis-lock';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { channelOf, channelPrefix } from '../../../lib/stores/token/handoff/handoff-channels.js';
import { outcome } from '../../support/async.js';
import { StoppedServers } from '../../support/server-clock/stopped-servers.js';
import { canSetWallClocks } from '../../support/server-clock/shim.js';
import { uniquePrefix } from '../../support/shared-redis.js';
import { untilSubscribed } from '../../support/subscriber-of.js';

/** Module instances on a server whose clock stands still, and waiters that are subscribed and do nothing. */
async function frozenQueue(servers: StoppedServers) {
  const clock = servers.clock();
  const prefix = uniquePrefix();
  const queue = `{${prefix}goods}:300|queue`;
  const admin = new Redis(servers.url);
  const subscriber = new Redis(servers.url);
  const running: LockRuntime[] = [];
  const start = (): LockService => {
    const runtime = LockRuntime.start({ redis: servers.url, prefix, unavailableAfterMs: Infinity }, undefined, {
      clock,
    });
    runtime.connect();
    running.push(runtime);
    return runtime.service;
  };
  let frozen = 0;
  return {
    clock,
    held: await start().acquire('goods:300'),
    freeze: async (count: number): Promise<void> => {
      const [, last = '0'] = await admin.zrange(queue, '-1', '-1', 'WITHSCORES');
      for (let i = 1; i <= count; i += 1) {
        frozen += 1;
        await subscriber.subscribe(channelOf(channelPrefix(prefix), `frozen-${frozen}`));
        await admin.zadd(queue, Number(last) + i, `v1-frozen-${frozen}:1/secret`);
      }
    },
    wait: async () => {
      const locks = start();
      const waiting = outcome(locks.acquire('goods:300', { waitMs: 600_000 }));
      // It joins the queue once it is subscribed.
      await untilSubscribed(locks);
      await clock.advance(0);
      return waiting;
    },
    close: async (): Promise<void> => {
      await Promise.all(running.map((runtime) => runtime.close()));
      subscriber.disconnect();
      await admin.del(queue);
      admin.disconnect();
    },
  };
}

if (canSetWallClocks('waiters that are frozen')) {
  describe('waiters that are frozen', () => {
    let servers: StoppedServers;

    beforeAll(async () => {
      servers = await StoppedServers.start();
    });
    afterAll(() => servers.stop());

    it.each([
      ['all of 20 are ahead', [20, 0, 0]],
      ['all of 1,000 are ahead', [1_000, 0, 0]],
      ['one is before each of the others', [1, 1, 1, 1, 1]],
    ])('delay the others by 3 s at most if %s', async (_which, frozenBefore) => {
      const { clock, held, freeze, wait, close } = await frozenQueue(servers);
      const waiting: Awaited<ReturnType<typeof wait>>[] = [];
      for (const count of frozenBefore) {
        await freeze(count);
        waiting.push(await wait());
      }
      const from = clock.now();
      await held.release();
      const tokens: number[] = [];
      for (const { value } of waiting) expect(value).toBeUndefined();
      for (const each of waiting) {
        while (each.value === undefined && clock.now() - from < 30_000) await clock.advance(20);
        // Nobody else has it before its turn.
        expect(waiting.filter(({ value }) => value !== undefined)).toHaveLength(tokens.length + 1);
        tokens.push(each.value?.fencingToken ?? 0);
        await each.value?.release();
        await clock.advance(0);
      }
      expect(clock.now() - from).toBeLessThan(3_000);
      expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
      await close();
    });
  });
}
