import { Counter, Gauge, Histogram, type OpenMetricsContentType, type Registry } from 'prom-client';
import type { LockCall } from '../events/call.js';
import { LockConfigError } from '../common/errors.js';
import { instanceStates } from '../events/instance-states.js';
import { LockCollector, type MetricEnd, type MetricLabels } from '../events/lock-collector.js';

/** What the metrics of a registry are made of. */
export interface MetricsOptions {
  readonly register: Registry | Registry<OpenMetricsContentType>;
  readonly prefix: string;
  readonly buckets: readonly number[];
  readonly familyOf: ((call: LockCall) => string) | undefined;
}

type Label = keyof MetricLabels;

const LABELS: readonly Label[] = ['name', 'family', 'mode'];

/** The metrics of all locks of the process in one registry. */
export class LockMetrics {
  private readonly names: string[] = [];
  private readonly collector: LockCollector;
  private readonly acquireDuration: Histogram<Label | 'outcome'>;
  private readonly holdDuration: Histogram<Label>;
  private readonly lost: Counter<Label>;

  constructor(private readonly options: MetricsOptions) {
    const { buckets, familyOf } = options;
    this.collector = new LockCollector(
      { acquired: (end) => this.onAcquired(end), held: (end) => this.onHeld(end) },
      familyOf,
    );
    this.acquireDuration = new Histogram({
      ...this.named('acquire_duration_seconds', 'Time from a call to its grant or refusal.'),
      labelNames: [...LABELS, 'outcome'],
      buckets: [...buckets],
    });
    this.holdDuration = new Histogram({
      ...this.named('hold_duration_seconds', 'Time from a grant to the release or the loss of the lock.'),
      labelNames: LABELS,
      buckets: [...buckets],
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
  }

  start(): void {
    this.collector.start();
  }

  stop(): void {
    this.collector.stop();
    for (const name of this.names) this.options.register.removeSingleMetric(name);
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
  private named(name: string, help: string): { name: string; help: string; registers: [MetricsOptions['register']] } {
    const { prefix, register } = this.options;
    const full = `${prefix}redis_lock_${name}`;
    if (register.getSingleMetric(full) !== undefined) {
      for (const made of this.names) register.removeSingleMetric(made);
      throw new LockConfigError(
        `collectLockMetrics(): the registry already has ${full}; use one collection for each registry and prefix.`,
      );
    }
    this.names.push(full);
    return { name: full, help, registers: [register] };
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
