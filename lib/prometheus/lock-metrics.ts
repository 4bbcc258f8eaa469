import { Counter, Gauge, Histogram, type OpenMetricsContentType, type Registry } from 'prom-client';
import type { LockCall } from '../core/events/call.js';
import {
  type EndedEvent,
  type GrantedEvent,
  lockChannels,
  type LockEvent,
  type RefusedEvent,
} from '../core/events/diagnostics.js';
import { LockConfigError } from '../core/errors.js';
import { FamilyLimit } from '../core/events/family-limit.js';
import { instanceStates } from '../core/state/instance-states.js';

/** What the metrics of a registry are made of. */
export interface MetricsOptions {
  readonly register: Registry | Registry<OpenMetricsContentType>;
  readonly prefix: string;
  readonly buckets: readonly number[];
  readonly familyOf: ((call: LockCall) => string) | undefined;
  readonly maxFamilies: number;
}

const LABELS = ['name', 'family', 'mode'] as const;

type Labels = Record<(typeof LABELS)[number], string>;
type Listener = (event: unknown) => void;

/** The metrics of all locks of the process in one registry. */
export class LockMetrics {
  private readonly names: string[] = [];
  private readonly families: FamilyLimit;
  /** The labels that locks have had. Their counts stay, at 0, so that queries over time find an increase. */
  private readonly known = new Map<string, Labels>();
  private readonly acquireDuration: Histogram<keyof Labels | 'outcome'>;
  private readonly holdDuration: Histogram<keyof Labels>;
  private readonly lost: Counter<keyof Labels>;
  private readonly listeners: readonly (readonly [name: keyof typeof lockChannels, listener: Listener])[];

  constructor(private readonly options: MetricsOptions) {
    const { buckets, maxFamilies } = options;
    this.families = new FamilyLimit(maxFamilies);
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
    this.addGauges();
    this.listeners = [
      ['granted', (event) => this.onGranted(event as GrantedEvent)],
      ['refused', (event) => this.onRefused(event as RefusedEvent)],
      ['released', (event) => this.onEnded(event as EndedEvent)],
      ['lost', (event) => this.onLost(event as EndedEvent)],
    ];
  }

  start(): void {
    for (const [name, listener] of this.listeners) lockChannels[name].subscribe(listener);
  }

  stop(): void {
    for (const [name, listener] of this.listeners) lockChannels[name].unsubscribe(listener);
    for (const name of this.names) this.options.register.removeSingleMetric(name);
    this.names.length = 0;
  }

  private onGranted(event: GrantedEvent): void {
    const labels = this.labelsOf(event, event.instance);
    this.acquireDuration.observe({ ...labels, outcome: 'granted' }, event.waitedMs / 1000);
    this.remember(labels);
  }

  private onRefused(event: RefusedEvent): void {
    const labels = this.labelsOf(event, event.instance);
    this.acquireDuration.observe({ ...labels, outcome: event.outcome }, event.waitedMs / 1000);
  }

  private onEnded(event: EndedEvent): Labels {
    const labels = this.labelsOf(event, event.instance);
    this.holdDuration.observe(labels, event.heldMs / 1000);
    return labels;
  }

  private onLost(event: EndedEvent): void {
    this.lost.inc(this.onEnded(event));
  }

  private remember(labels: Labels): void {
    const series = JSON.stringify(labels);
    if (this.known.has(series)) return;
    this.known.set(series, labels);
    this.lost.inc(labels, 0);
  }

  /** Adds the metrics that are read from the module instances at each scrape. */
  private addGauges(): void {
    const holds: Gauge<keyof Labels> = new Gauge({
      ...this.named('holds', 'Locks that callers of this process hold.'),
      labelNames: LABELS,
      collect: () => this.count(holds, 'holds'),
    });
    const waiters: Gauge<keyof Labels> = new Gauge({
      ...this.named('waiters', 'Callers of this process that wait for a lock.'),
      labelNames: LABELS,
      collect: () => this.count(waiters, 'waiting'),
    });
    const storeUp: Gauge<'name' | 'server'> = new Gauge({
      ...this.named('store_up', 'Whether the store, or a server of it, can be reached: 1 or 0.'),
      labelNames: ['name', 'server'],
      aggregator: 'min',
      collect: () => readServers(storeUp),
    });
  }

  private count(gauge: Gauge<keyof Labels>, of: 'holds' | 'waiting'): void {
    for (const labels of this.known.values()) gauge.set(labels, 0);
    for (const state of instanceStates()) {
      for (const call of state[of]) {
        const labels = this.labelsOf(call, state.instance);
        this.remember(labels);
        gauge.inc(labels);
      }
    }
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

  private labelsOf(call: LockCall | LockEvent, name: string): Labels {
    const mode = call.permits === undefined ? call.mode : 'permits';
    return { name, family: this.families.of(this.familyOf(call)), mode };
  }

  private familyOf(call: LockCall): string {
    const { familyOf } = this.options;
    if (familyOf === undefined) return call.family;
    try {
      const family: unknown = familyOf(call);
      return typeof family === 'string' ? family : 'other';
    } catch {
      // Node ends the process if a subscriber of a channel throws.
      return 'other';
    }
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
