import {
  Counter,
  Gauge,
  register as globalRegister,
  Histogram,
  type OpenMetricsContentType,
  type Registry,
} from 'prom-client';
import { checkOptions, hasMethods, type OptionRules } from '../common/check-options.js';
import { LockConfigError } from '../common/errors.js';
import { instanceStates } from '../events/instance-states.js';
import { LockCollector, type MetricEnd, type MetricLabels } from '../events/lock-collector.js';

/**
 * The options of {@link collectLockMetrics}.
 *
 * @publicApi
 */
export interface LockMetricsOptions {
  /**
   * Where the metrics are registered.
   *
   * @default the global registry of prom-client
   */
  readonly register?: Registry | Registry<OpenMetricsContentType> | undefined;
  /**
   * The upper limits of the buckets of both histograms, in seconds, in rising order.
   *
   * @default [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
   */
  readonly buckets?: readonly number[] | undefined;
}

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

const RULES: OptionRules<LockMetricsOptions> = {
  register: {
    allowed: 'a Registry of prom-client',
    fits: (value) => hasMethods(value, ['registerMetric', 'getSingleMetric', 'removeSingleMetric']),
  },
  buckets: {
    allowed: 'a list of rising numbers of seconds',
    fits: (value) => Array.isArray(value) && value.length > 0 && value.every(isRising),
  },
};

/**
 * Collects metrics of all locks of the process for Prometheus, from now on. Returns a function that stops this and
 * removes the metrics from the registry.
 *
 * Call it once, before or after the application starts. The resource is never a label, so a thousand resources of one
 * family add no series. All families after the first 100 count as `other`, so that clients that choose a part of the
 * resource cannot create an unlimited number of series.
 *
 * @throws {LockConfigError} if an option is not allowed, or if the registry already has these metrics.
 *
 * @publicApi
 */
export function collectLockMetrics(options: LockMetricsOptions = {}): () => void {
  const { register = globalRegister, buckets = BUCKETS } = checkOptions('collectLockMetrics()', options, RULES);
  const metrics = new LockMetrics(register, [...buckets]);
  return () => metrics.stop();
}

// The bucket without an upper limit is always there.
function isRising(value: unknown, index: number, all: readonly unknown[]): boolean {
  return Number.isFinite(value) && Number(value) > Number(index === 0 ? 0 : all[index - 1]);
}

type Label = keyof MetricLabels;

const LABELS: readonly Label[] = ['name', 'family', 'mode'];

/** The metrics of all locks of the process in one registry. */
class LockMetrics {
  private readonly names: string[] = [];
  private readonly collector: LockCollector;
  private readonly acquireDuration: Histogram<Label | 'outcome'>;
  private readonly holdDuration: Histogram<Label>;
  private readonly lost: Counter<Label>;

  constructor(
    private readonly register: NonNullable<LockMetricsOptions['register']>,
    buckets: number[],
  ) {
    this.acquireDuration = new Histogram({
      ...this.named('acquire_duration_seconds', 'Time from a call to its grant or refusal.'),
      labelNames: [...LABELS, 'outcome'],
      buckets,
    });
    this.holdDuration = new Histogram({
      ...this.named('hold_duration_seconds', 'Time from a grant to the release or the loss of the lock.'),
      labelNames: LABELS,
      buckets,
    });
    this.lost = new Counter({
      ...this.named('lost_total', 'Locks that were lost before their work ended.'),
      labelNames: LABELS,
    });
    this.addGauge('holds', 'holds', 'Locks that callers of this process hold.');
    this.addGauge('waiters', 'waiting', 'Callers of this process that wait for a lock.');
    const storeUp: Gauge<'name' | 'server'> = new Gauge({
      ...this.named('store_up', 'Whether the store, or a server of it, can be reached: 1 or 0.'),
      labelNames: ['name', 'server'],
      aggregator: 'min',
      collect: () => readServers(storeUp),
    });
    this.collector = new LockCollector({ acquired: (end) => this.onAcquired(end), held: (end) => this.onHeld(end) });
    this.collector.start();
  }

  stop(): void {
    this.collector.stop();
    for (const name of this.names) this.register.removeSingleMetric(name);
    this.names.length = 0;
  }

  private onAcquired({ labels, outcome, seconds }: MetricEnd): void {
    this.acquireDuration.observe({ ...labels, outcome }, seconds);
    // A counter that begins at 0 shows its first loss as an increase.
    if (outcome === 'granted') this.lost.inc(labels, 0);
  }

  private onHeld({ labels, outcome, seconds }: MetricEnd): void {
    this.holdDuration.observe(labels, seconds);
    if (outcome === 'lost') this.lost.inc(labels);
  }

  /** Adds a metric that is counted at each scrape. */
  private addGauge(name: string, counted: 'holds' | 'waiting', help: string): void {
    const gauge: Gauge<Label> = new Gauge({
      ...this.named(name, help),
      labelNames: LABELS,
      collect: () => {
        for (const [labels, value] of this.collector.count(counted)) gauge.set(labels, value);
      },
    });
  }

  /** @throws LockConfigError if the registry already has a metric with this name. */
  private named(name: string, help: string) {
    const full = `redis_lock_${name}`;
    if (this.register.getSingleMetric(full) !== undefined) {
      for (const made of this.names) this.register.removeSingleMetric(made);
      throw new LockConfigError(
        `collectLockMetrics(): the registry already has ${full}; use one collection for each registry.`,
      );
    }
    this.names.push(full);
    return { name: full, help, registers: [this.register] };
  }
}

function readServers(gauge: Gauge<'name' | 'server'>): void {
  const ups = new Map<string, { readonly name: string; readonly server: string; readonly isUp: boolean }>();
  for (const { instance: name, servers } of instanceStates()) {
    for (const { server = '', isUp } of servers) {
      // Two applications of the process may have module instances with the same name.
      const series = JSON.stringify([name, server]);
      ups.set(series, { name, server, isUp: isUp && ups.get(series)?.isUp !== false });
    }
  }
  gauge.reset();
  for (const { name, server, isUp } of ups.values()) gauge.set({ name, server }, isUp ? 1 : 0);
}
