import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Test } from '@nestjs/testing';
import { Registry } from 'prom-client';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from 'nestjs-redis-lock';
import { collectLockMetrics } from 'nestjs-redis-lock/prometheus';
import { RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { outcomes } from '../support/outcomes.js';
import { page, root } from '../support/pages.js';
import { parseQuery, type Query } from '../support/promql.js';

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: { readonly uid: string };
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Variable {
  readonly name: string;
  readonly query: string | { readonly query: string };
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly Variable[] };
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly severity: string;
  readonly summary: string;
}

/** Prometheus adds these labels to every series that it scrapes. */
const OF_TARGET = ['job', 'instance'];
const fileOf = (name: string): string => readFileSync(join(root, 'docs/monitoring', name), 'utf8');
const dashboard = JSON.parse(fileOf('grafana-dashboard.json')) as Dashboard;
const shown = dashboard.panels.filter(({ type }) => type !== 'row');
const rules = rulesIn(fileOf('prometheus-alerts.yml'));
const byText = (a: string, b: string): number => a.localeCompare(b);

let registered: readonly string[];
let exported: ReadonlyMap<string, ReadonlySet<string>>;

/** Reads what an application exports after it has used one lock. */
beforeAll(async () => {
  const register = new Registry();
  const stop = collectLockMetrics({ register });
  const app = await Test.createTestingModule({ imports: [RedisLockTestingModule.forRoot()] }).compile();
  try {
    await app.init();
    await app.get(LockService).using('goods:300', () => undefined);
    registered = register.getMetricsAsArray().map(({ name }) => name);
    exported = labelsIn(await register.metrics());
  } finally {
    stop();
    await app.close();
  }
});

/** Returns the labels of each name in a scrape. */
function labelsIn(scrape: string): ReadonlyMap<string, ReadonlySet<string>> {
  const names = new Map<string, Set<string>>();
  for (const [, name, labels] of scrape.matchAll(/^(\w+)\{(.*)\} \S+$/gm)) {
    const known = names.get(name) ?? new Set(OF_TARGET);
    for (const [, label] of labels.matchAll(/(\w+)="/g)) known.add(label);
    names.set(name, known);
  }
  return names;
}

/** Returns the rules of the file, which has one way to write them. */
function rulesIn(text: string): readonly Rule[] {
  const [, ...parts] = text.split(/^ {6}- alert: /m);
  return parts.map((part) => {
    const found = (pattern: RegExp): string => pattern.exec(part)?.[1] ?? '';
    return {
      alert: found(/^(\w+)\n/),
      expr: found(/^ {8}expr: \|\n((?: {10}.*\n)+)/m) || found(/^ {8}expr: (.+)\n/m),
      severity: found(/^ {10}severity: (\w+)$/m),
      summary: found(/^ {10}summary: '(.+)'$/m),
    };
  });
}

function parse(expr: string): Query {
  const query = parseQuery(expr.replaceAll(/\$__(?:rate_interval|range)\b/g, '5m'), (metric) => exported.get(metric));
  const wanted = query.matchers.filter(({ label }) => label === 'outcome').flatMap(({ value }) => value.split('|'));
  const unknown = wanted.filter((outcome) => !outcomes.includes(outcome));
  if (unknown.length > 0) throw new Error(`there is no outcome ${unknown.join(', ')}, in: ${expr}`);
  return query;
}

describe('the dashboard of Grafana', () => {
  it.each(shown)('has queries that Prometheus can answer in panel $id, $title', ({ targets = [] }) => {
    expect(targets.length).toBeGreaterThan(0);
    for (const { expr, legendFormat } of targets) {
      const { labels } = parse(expr);
      const named = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label);
      expect([...labels].toSorted(byText)).toEqual(named.toSorted(byText));
    }
  });

  it('shows every metric that an application exports', () => {
    const metrics = shown.flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => parse(expr).metrics));
    const names = new Set(metrics.map((metric) => metric.replace(/_(?:bucket|count|sum)$/, '')));
    expect([...names].toSorted(byText)).toEqual([...registered].toSorted(byText));
  });

  it('has variables whose values are labels that exist', () => {
    const { list } = dashboard.templating;
    const queries = list.flatMap(({ query }) => (typeof query === 'string' ? [] : [query.query]));
    expect(queries).toHaveLength(3);
    for (const query of queries) {
      const [, selector = '', label = ''] = /^label_values\((.*), (\w+)\)$/.exec(query) ?? [];
      expect(parse(selector).labels.has(label)).toBe(true);
    }
  });

  it('uses variables that it has, and no data source of its own', () => {
    const known = dashboard.templating.list.map(({ name }) => name);
    const text = fileOf('grafana-dashboard.json');
    const used = [...text.matchAll(/\$\{?(\w+)/g)].map(([, name]) => name).filter((name) => !name.startsWith('__'));
    expect([...new Set(used)].toSorted(byText)).toEqual(known.toSorted(byText));
    const uids = shown.map(({ datasource }) => datasource?.uid ?? '');
    expect(uids.filter((uid) => !/^\$\{datasource\}$/.test(uid))).toEqual([]);
  });

  it('has panels with an id and a description, beside one another', () => {
    const { panels } = dashboard;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    expect(shown.filter(({ description = '' }) => description === '')).toEqual([]);
    const cells = panels.flatMap(({ gridPos: { h, w, x, y } }) =>
      Array.from({ length: h * w }, (_, i) => [x + (i % w), y + Math.floor(i / w)]),
    );
    expect(cells.filter(([x]) => x > 23)).toEqual([]);
    expect(new Set(cells.map(String)).size).toBe(cells.length);
  });
});

describe('the alert rules of Prometheus', () => {
  it.each(rules)('have a query that Prometheus can answer: $alert', ({ expr, summary, severity }) => {
    const { labels } = parse(expr);
    const named = [...summary.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label);
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((label) => !labels.has(label))).toEqual([]);
    expect(['critical', 'warning']).toContain(severity);
  });

  it('are explained on the page', () => {
    const rows = page('docs/observability.md').text.matchAll(/^\| `(RedisLock\w+)` +\| (?:critical|warning)/gm);
    expect([...rows].map(([, alert]) => alert)).toEqual(rules.map(({ alert }) => alert));
  });
});

describe('the check of queries', () => {
  it.each([
    ['sum(redis_lock_held)', 'there is no metric redis_lock_held'],
    ['redis_lock_acquire_duration_seconds', 'there is no metric redis_lock_acquire_duration_seconds'],
    ['redis_lock_holds{resource="goods:1"}', 'redis_lock_holds has no label resource'],
    ['sum by (server) (redis_lock_holds)', 'there is no label server to aggregate by'],
    ['sum by (family) (sum by (name) (redis_lock_holds))', 'there is no label family to aggregate by'],
    ['rate(redis_lock_lost_total)', 'rate of a vector in place of a range'],
    ['redis_lock_lost_total[5m]', 'a range is not a result'],
    ['redis_lock_lost_total[5]', '5 is not a duration'],
    ['median(redis_lock_holds)', 'unknown function median'],
    ['sum(redis_lock_holds', 'the query ends too early'],
    ['sum(redis_lock_holds))', 'unexpected )'],
    ['histogram_quantile(0.9, redis_lock_hold_duration_seconds_count)', 'histogram_quantile without le'],
    ['sum(redis_lock_holds) / sum by (family) (redis_lock_waiters)', '/ between {} and {family}'],
    ['redis_lock_acquire_duration_seconds_count{outcome="late"}', 'there is no outcome late'],
  ])('refuses %s', (expr, message) => {
    expect(() => parse(expr)).toThrow(message);
  });
});
