import { Registry } from 'prom-client';
import { describe, expect, it } from '@jest/globals';
import { storeChannel, type StoreEvent } from 'nestjs-redis-lock/events';
import { collectLockMetrics } from 'nestjs-redis-lock/prometheus';
import { eventually } from '../support/async.js';
import { startRedis } from '../support/redis/index.js';
import { closeApps, startApp } from './support/app.js';
import { GOODS_SERIES, seriesOf } from './support/series.js';

describe('the metrics of Prometheus', () => {
  it('show that a store cannot be reached, and that it is back', async () => {
    const register = new Registry();
    const stop = collectLockMetrics({ register });
    const changes: StoreEvent[] = [];
    const onChanged = (event: unknown): void => void changes.push(event as StoreEvent);
    storeChannel.subscribe(onChanged);
    const redis = await startRedis({ local: true });
    try {
      const { locks } = await startApp({
        locks: { redis: redis.url, checks: 'off', requestTimeoutMs: 1_000 },
      });
      const isUp = async () => seriesOf(await register.metrics())['redis_lock_store_up{name="default",server=""}'];
      await locks.using('goods:1', () => undefined);
      expect(await isUp()).toBe(1);
      await redis.kill();
      await expect(locks.acquire('goods:1', { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
      expect(await isUp()).toBe(0);
      expect(seriesOf(await register.metrics())).toMatchObject({
        [`redis_lock_acquire_duration_seconds_count{${GOODS_SERIES},outcome="unavailable"}`]: 1,
      });
      await redis.restart();
      await eventually('the store is up', async () => {
        await locks.using('goods:2', { waitMs: 0 }, () => undefined).catch(() => undefined);
        return (await isUp()) === 1;
      });
      const place = { instance: 'default', server: undefined };
      // A slow machine may have had a request without a reply in time besides.
      expect(changes.map((change) => change.isUp)).toEqual(changes.map((_, i) => i % 2 === 1));
      expect(changes.length).toBeGreaterThanOrEqual(2);
      expect(changes[0]).toMatchObject({ ...place, isUp: false });
      expect(changes.at(-1)).toEqual({ ...place, isUp: true, error: undefined });
    } finally {
      stop();
      storeChannel.unsubscribe(onChanged);
      await closeApps();
      await redis.stop();
    }
  });
});
