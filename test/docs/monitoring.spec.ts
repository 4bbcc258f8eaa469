// The tables of the page on observability, the dashboard and the alert rules name what an application exports.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Test } from '@nestjs/testing';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from 'nestjs-redis-lock';
import { lockChannels } from 'nestjs-redis-lock/events';
import { collectLockMetrics } from 'nestjs-redis-lock/prometheus';
import { RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { Registry } from 'prom-client';
import * as attributes from '../../lib/opentelemetry/attributes.js';
import { page, root, sectionOf } from '../support/pages.js';

const { text } = page('docs/observability.md');
const fileOf = (name: string): string => readFileSync(join(root, 'docs/monitoring', name), 'utf8');

/** Every `LockOutcome`, as the type lists them. */
const [, union = ''] = /export type LockOutcome =([^;]+);/.exec(page('lib/events/tracing.ts').text) ?? [];
const outcomes = Array.from(union.matchAll(/'(\w+)'/g), ([, name]) => name);

/** Returns the first group of each match, sorted. */
const namesIn = (from: string, pattern: RegExp): readonly string[] =>
  [...new Set(Array.from(from.matchAll(pattern), ([, name]) => name))].toSorted();

let metrics: readonly string[];
/** The labels of all metrics, and those that Prometheus adds. */
let labels: ReadonlySet<string>;

/** Reads what an application exports after it has used one lock. */
beforeAll(async () => {
  const register = new Registry();
  const stop = collectLockMetrics({ register });
  const module = await Test.createTestingModule({ imports: [RedisLockTestingModule.forRoot()] }).compile();
  try {
    await module.init();
    await module.get(LockService).using('goods:300', () => undefined);
    metrics = register.getMetricsAsArray().map(({ name }) => name);
    labels = new Set(['job', 'instance', ...namesIn(await register.metrics(), /[{,](\w+)="/g)]);
  } finally {
    stop();
    await module.close();
  }
});

describe('the page on observability', () => {
  it('lists every metric of Prometheus', () => {
    expect(namesIn(text, /^\| `(redis_lock_\w+)`/gm)).toEqual(metrics.toSorted());
  });

  it('lists every outcome', () => {
    const listed = sectionOf('docs/observability.md', 'Outcomes');
    expect(namesIn(listed, /`([a-z]+)`/g)).toEqual(outcomes.toSorted());
  });

  it('lists every attribute of a span', () => {
    const names = Object.values(attributes).filter((value) => typeof value === 'string');
    const listed = namesIn(sectionOf('docs/observability.md', 'Traces'), /`((?:redis_lock|error)\.\w+)`/g);
    expect(listed).toEqual(names.toSorted());
  });

  it('says what every alert means', () => {
    const alerts = namesIn(fileOf('prometheus-alerts.yml'), /- alert: (\w+)/g);
    expect(namesIn(sectionOf('docs/observability.md', 'Alerts'), /`(RedisLock\w+)`/g)).toEqual(alerts);
  });

  it('lists every channel', () => {
    const channels = Object.values(lockChannels).map(({ name }) => String(name));
    expect(namesIn(text, /^\| `(nestjs-redis-lock:\w+)`/gm)).toEqual(channels.toSorted());
  });
});

// promtool.slow.spec.ts reads the queries as Prometheus does.
describe.each(['grafana-dashboard.json', 'prometheus-alerts.yml'])('the file %s', (name) => {
  const file = fileOf(name).replaceAll(String.raw`\"`, '"');

  it('has metrics, labels and outcomes that exist', () => {
    const used = namesIn(file, /\b(redis_lock_\w+)/g).map((metric) => metric.replace(/_(?:bucket|count|sum)$/, ''));
    expect(used.length).toBeGreaterThan(5);
    expect(used.filter((metric) => !metrics.includes(metric))).toEqual([]);
    const grouped = namesIn(file, /\bby \(([^)]*)\)/g).flatMap((list) => list.split(/, */));
    const matched = namesIn(file, /[{,] *(\w+) *(?:=~|!=|!~|=)"/g);
    const shown = namesIn(file, /(?:\$labels\.|\{\{ *)(\w+)(?= *\}\})/g);
    expect([...grouped, ...matched, ...shown].filter((label) => !labels.has(label))).toEqual([]);
    const asked = namesIn(file, /outcome(?:=~|!=|!~|=)"([^"]*)"/g).flatMap((list) => list.split('|'));
    expect(asked.filter((outcome) => !outcomes.includes(outcome))).toEqual([]);
  });
});

it('the dashboard shows every metric, and no panel lies on another', () => {
  interface Panel {
    readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  }
  const file = fileOf('grafana-dashboard.json');
  expect(metrics.filter((metric) => !file.includes(metric))).toEqual([]);
  const { panels } = JSON.parse(file) as { readonly panels: readonly Panel[] };
  const cells = panels.flatMap(({ gridPos: { h, w, x, y } }) =>
    Array.from({ length: h * w }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
});
