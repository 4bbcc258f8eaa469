import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { LockService } from 'nestjs-redis-lock';
import { collectLockMetrics } from 'nestjs-redis-lock/prometheus';
import { RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { Registry } from 'prom-client';
import { root } from '../support/pages.js';

const PROMTOOL = process.env['PROMTOOL_BIN'] || 'promtool';
const MISSING = 'there is no promtool: install it (apt-get install prometheus), or set PROMTOOL_BIN to its path';
const LIMIT_MS = 120_000;

const isPresent = spawnSync(PROMTOOL, ['--version'], { timeout: LIMIT_MS }).error === undefined;
const RULES = join(root, 'docs/monitoring/prometheus-alerts.yml');
const DASHBOARD = join(root, 'docs/monitoring/grafana-dashboard.json');
const TESTS = join(root, 'test/docs/monitoring/alerts.test.yml');

/** Runs promtool. Returns what it wrote, or throws it. */
function promtool(args: readonly string[], input?: string): string {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { input, encoding: 'utf8', timeout: LIMIT_MS });
  if (status !== 0) throw new Error(`promtool ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`);
  return `${stdout}${stderr}`;
}

/** Wraps a test. Without promtool it prints that the test did not run. In CI it fails. */
function onPromtool(body: () => unknown): () => Promise<void> {
  if (isPresent) return async () => void (await body());
  return () => {
    if (process.env['CI'] === 'true') throw new Error(MISSING);
    process.stdout.write(`NOT RUN, because ${MISSING}: ${expect.getState().currentTestName}\n`);
    return Promise.resolve();
  };
}

/** Returns the queries of all panels, with what Grafana puts in place of its variables. */
function queries(): readonly string[] {
  interface Panel {
    readonly targets?: readonly { readonly expr: string }[];
  }
  const { panels } = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as { readonly panels: readonly Panel[] };
  const all = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  return all.map((expr) =>
    expr.replaceAll(/\$__(?:rate_interval|range|interval)\b/g, '5m').replaceAll(/\$\{?\w+\}?/g, '.*'),
  );
}

describe('the files for Prometheus, read by its own tool', () => {
  it(
    'have alert rules without a mistake',
    onPromtool(() => {
      expect(promtool(['check', 'rules', '--lint-fatal', RULES])).toMatch(/SUCCESS: 8 rules found/);
    }),
  );

  it(
    'have alert rules that fire, and do not fire, as the page says',
    onPromtool(() => {
      expect(promtool(['test', 'rules', TESTS])).toMatch(/SUCCESS/);
    }),
  );

  it(
    'test every alert rule',
    onPromtool(() => {
      const tests = readFileSync(TESTS, 'utf8');
      const fired = [...tests.matchAll(/alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:/g)].map(([, name]) => name);
      const rules = [...readFileSync(RULES, 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
      expect(rules.filter((name) => !fired.includes(name))).toEqual([]);
    }),
  );

  it(
    'have queries of the dashboard that Prometheus can parse',
    onPromtool(() => {
      const all = queries();
      expect(all.length).toBeGreaterThan(10);
      const records = all.map((expr, i) => `      - record: panel:${i}\n        expr: ${JSON.stringify(expr)}\n`);
      const text = `groups:\n  - name: dashboard\n    rules:\n${records.join('')}`;
      const folder = mkdtempSync(join(tmpdir(), 'promtool-'));
      const path = join(folder, 'rules.yml');
      writeFileSync(path, text);
      try {
        expect(promtool(['check', 'rules', path])).toContain(`${all.length} rules found`);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    }),
  );

  it(
    'have metrics whose names and units follow the conventions',
    onPromtool(async () => {
      const register = new Registry();
      const stop = collectLockMetrics({ register });
      const app = await Test.createTestingModule({ imports: [RedisLockTestingModule.forRoot()] }).compile();
      try {
        await app.init();
        const locks = app.get(LockService);
        await locks.using('goods:300', () => locks.tryAcquire('goods:301'));
        expect(promtool(['check', 'metrics'], await register.metrics())).toBe('');
      } finally {
        stop();
        await app.close();
      }
    }),
  );
});
