import { once } from 'node:events';
import { register as globalRegister, Registry } from 'prom-client';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked, type LockOptions } from 'nestjs-redis-lock';
import { collectLockMetrics, type LockMetricsOptions } from 'nestjs-redis-lock/prometheus';
import { closeApps, startApp } from './support/app.js';
import { goodsController } from './support/goods-controller.js';
import { GOODS_SERIES as GOODS, seriesOf } from './support/series.js';
import { onStoppedServer } from './support/stopped-app.js';

const clock = onStoppedServer();

let register = new Registry();
let stop: (() => void) | undefined;

function collect(options: LockMetricsOptions = {}): void {
  register = new Registry();
  stop = collectLockMetrics({ register, ...options });
}

const scrape = async (): Promise<Record<string, number>> => seriesOf(await register.metrics());

describe('the metrics of Prometheus', () => {
  afterEach(async () => {
    stop?.();
    stop = undefined;
    await closeApps();
  });

  it('show a lock that is held and one that waits, and then how long', async () => {
    collect();
    const app = await startApp({ controllers: [goodsController([Locked('goods:<id>')])] });
    const [first, second] = [app.call('/goods/1'), app.call('/goods/1')];
    const visit = await app.room.next();
    await app.log.until('requested goods:1', 2);
    const during = await scrape();
    expect(during).toMatchObject({
      [`redis_lock_holds{${GOODS}}`]: 1,
      [`redis_lock_waiters{${GOODS}}`]: 1,
      [`redis_lock_acquire_duration_seconds_count{${GOODS},outcome="granted"}`]: 1,
      [`redis_lock_lost_total{${GOODS}}`]: 0,
      'redis_lock_store_up{name="default",server=""}': 1,
    });
    expect(during).not.toHaveProperty([`redis_lock_hold_duration_seconds_count{${GOODS}}`]);
    visit.leave();
    (await app.room.next()).leave();
    await Promise.all([first, second]);
    await app.log.until('released goods:1', 2);
    const after = await scrape();
    expect(after).toMatchObject({
      [`redis_lock_acquire_duration_seconds_count{${GOODS},outcome="granted"}`]: 2,
      [`redis_lock_hold_duration_seconds_count{${GOODS}}`]: 2,
      [`redis_lock_hold_duration_seconds_bucket{le="60",${GOODS}}`]: 2,
    });
    // They stay at 0, so that a query over time finds the next one.
    expect(after).toMatchObject({ [`redis_lock_holds{${GOODS}}`]: 0, [`redis_lock_waiters{${GOODS}}`]: 0 });
  });

  it('count refusals by their outcome, and losses', async () => {
    collect();
    const { locks } = await startApp({});
    const held = await locks.acquire('goods:1');
    await locks.tryAcquire('goods:1');
    await expect(clock().until(locks.acquire('goods:1', { waitMs: 5 }))).rejects.toThrow('goods:1 is locked');
    await held.release();
    const options = { maxHoldMs: 20, onLost: 'ignore' } as const;
    await clock().until(locks.using('goods:1', options, ({ signal }) => once(signal, 'abort')));
    expect(await scrape()).toMatchObject({
      [`redis_lock_acquire_duration_seconds_count{${GOODS},outcome="busy"}`]: 1,
      [`redis_lock_acquire_duration_seconds_count{${GOODS},outcome="timeout"}`]: 1,
      [`redis_lock_lost_total{${GOODS}}`]: 1,
      [`redis_lock_hold_duration_seconds_count{${GOODS}}`]: 2,
    });
  });

  it('add no series for a thousand resources of one family', async () => {
    collect();
    const { locks } = await startApp({});
    const use = (id: number, options: LockOptions = {}) => locks.using(`goods:${id}`, options, () => undefined);
    await use(0);
    const names = Object.keys(await scrape());
    await Promise.all(Array.from({ length: 1_000 }, (_, id) => use(id)));
    const after = await scrape();
    expect(Object.keys(after)).toEqual(names);
    expect(after[`redis_lock_acquire_duration_seconds_count{${GOODS},outcome="granted"}`]).toBe(1_001);
    await use(1, { mode: 'shared' });
    await use(1, { permits: 3 });
    const modes = Object.keys(await scrape()).map((name) => /^redis_lock_lost_total.*mode="(\w+)"/.exec(name)?.[1]);
    expect(modes.filter(Boolean)).toEqual(['exclusive', 'shared', 'permits']);
  });

  it('have 100 families, and then `other`', async () => {
    collect();
    const { locks } = await startApp({});
    for (let id = 0; id < 150; id += 1) await locks.using(`tenant${id}:goods`, () => undefined);
    const lost = Object.keys(await scrape()).filter((name) => name.startsWith('redis_lock_lost_total'));
    const families = lost.map((name) => /family="(\w+)"/.exec(name)?.[1]);
    expect(families).toEqual([...Array.from({ length: 100 }, (_, id) => `tenant${id}`), 'other']);
  });

  it('stop, and leave nothing in the registry', async () => {
    stop = collectLockMetrics({ buckets: [0.1, 1] });
    const { locks } = await startApp({});
    await locks.using('goods:1', () => undefined);
    const text = await globalRegister.metrics();
    expect(text).toContain(`redis_lock_hold_duration_seconds_bucket{le="0.1",${GOODS}} 1`);
    expect(text).not.toContain('le="0.5"');
    stop();
    stop();
    expect(await globalRegister.metrics()).toBe('\n');
    await locks.using('goods:1', () => undefined);
  });

  it('refuse a registry that has them, and options that are not allowed', () => {
    collect();
    expect(() => collectLockMetrics({ register })).toThrow(
      'collectLockMetrics(): the registry already has redis_lock_acquire_duration_seconds; ' +
        'use one collection for each registry.',
    );
    const refused = (options: object) => () => collectLockMetrics({ register: new Registry(), ...options });
    expect(refused({ buckets: [1, 1] })).toThrow('buckets is an array; expected a list of rising numbers of seconds');
    expect(refused({ buckets: [1, Infinity] })).toThrow('expected a list of rising numbers of seconds');
    expect(refused({ register: {} })).toThrow('register is a plain object; expected a Registry of prom-client');
  });
});
