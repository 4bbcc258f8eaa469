import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NestFactory } from '@nestjs/core';
import { Module } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { lockChannels, memory, RedisLockModule } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { outcomes } from '../support/outcomes.js';
import { page } from '../support/pages.js';
import { Registry } from 'prom-client';
import { collectLockMetrics } from 'nestjs-redis-lock/prometheus';
import * as attributes from '../../lib/opentelemetry/attributes.js';
import { ReadinessModule } from './health.js';
import { printLocks } from './list.js';
import { logSlowLocks } from './slow-locks.js';

const byText = (a: string, b: string): number => a.localeCompare(b);

describe('the page on observability', () => {
  it('has an example that lists locks', async () => {
    const lines: string[] = [];
    const locks = createTestLocks({ identity: 'api-7f9c-31' });
    await locks.using('goods:300', () => printLocks(locks, (line) => lines.push(line)));
    expect(lines).toEqual(['goods:300: held by api-7f9c-31, 0 waiting']);
  });

  it('has an example of a health check', async () => {
    @Module({ imports: [RedisLockModule.forRoot({ store: memory() }), ReadinessModule] })
    class AppModule {}
    const app = await NestFactory.create(AppModule, { logger: false });
    try {
      await app.listen(0, '127.0.0.1');
      const response = await fetch(`${await app.getUrl()}/ready`);
      expect(await response.json()).toMatchObject({ status: 'ok', details: { locks: { status: 'up' } } });
    } finally {
      await app.close();
    }
  });

  it('has an instrumentation that works', async () => {
    const { lockInstrumentation } = await import('./opentelemetry.js');
    expect(await createTestLocks().using('goods:300', () => 'done')).toBe('done');
    lockInstrumentation.disable();
  });

  it('has a controller with metrics', async () => {
    const { MetricsController } = await import('./prometheus.js');
    const controller = new MetricsController();
    await createTestLocks().using('goods:300', () => undefined);
    expect(await controller.metrics()).toContain(
      'redis_lock_hold_duration_seconds_count{name="default",family="goods"',
    );
    controller.onModuleDestroy();
    expect(await controller.metrics()).not.toContain('redis_lock');
  });

  it('has a table of all metrics of Prometheus, and names no other', () => {
    const register = new Registry();
    const stop = collectLockMetrics({ register });
    const names = new Set(register.getMetricsAsArray().map(({ name }) => name));
    stop();
    const { text } = page('docs/observability.md');
    const rows = [...text.matchAll(/^\| `(redis_lock_\w+)`/gm)].map(([, name]) => name);
    expect(new Set(rows)).toEqual(names);
    const used = [...text.matchAll(/\bredis_lock_\w+/g)].map(([name]) => name.replace(/_(?:bucket|count)$/, ''));
    expect(used.filter((name) => !names.has(name))).toEqual([]);
  });

  it('lists every outcome', () => {
    const rows = page('docs/observability.md').text.matchAll(/^\| ((?:`[a-z]+`(?:, )?)+) +\| [^|]+ \| (?:no|yes)/gm);
    const listed = [...rows].flatMap(([, names]) => [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name));
    expect(listed.toSorted(byText)).toEqual([...outcomes].toSorted(byText));
  });

  it('has a subscriber of ten lines that reports slow locks', async () => {
    const clock = new ManualClock();
    const locks = createTestLocks({ clock });
    const lines: string[] = [];
    const stop = logSlowLocks(1_000, (line) => lines.push(line));
    for (const ms of [500, 2_000]) await locks.using(`goods:${ms}`, () => clock.advance(ms));
    stop();
    await locks.using('goods:3000', () => clock.advance(3_000));
    expect(lines).toEqual([expect.stringMatching(/^\S+-\d+ goods:2000: waited 0 ms, held 2000 ms, released$/)]);
    const source = await readFile(join(__dirname, 'slow-locks.ts'), 'utf8');
    expect(source.trimEnd().split('\n').length).toBeLessThanOrEqual(10);
  });

  it('lists every attribute of a span', () => {
    const { text } = page('docs/observability.md');
    const rows = [...text.matchAll(/^\| `((?:redis_lock|error)\.\w+)` +\| yes/gm)].map(([, name]) => name);
    const names = Object.values(attributes).filter((value) => typeof value === 'string');
    expect(rows.toSorted(byText)).toEqual(names.toSorted(byText));
  });

  it('lists every channel', () => {
    const rows = page('docs/observability.md').text.matchAll(/^\| `(nestjs-redis-lock:\w+)`/gm);
    const channels = Object.values(lockChannels).map(({ name }) => String(name));
    const traced = ['nestjs-redis-lock:acquire', 'nestjs-redis-lock:hold'];
    expect([...rows].map(([, name]) => name)).toEqual([...channels, ...traced]);
  });
});
