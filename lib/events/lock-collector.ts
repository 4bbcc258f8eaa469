import type { Channel } from 'node:diagnostics_channel';
import type { LockCall } from './call.js';
import {
  type EndedEvent,
  type GrantedEvent,
  lockChannels,
  type LockEvent,
  type LostEvent,
  type RefusedEvent,
} from './diagnostics.js';
import type { LockOutcome } from './tracing.js';
import { instanceStates } from './instance-states.js';

/** What distinguishes the series of a metric. The resource does not, because each resource would be a series. */
export interface MetricLabels {
  /** The name of the module instance. */
  readonly name: string;
  readonly family: string;
  readonly mode: 'exclusive' | 'shared' | 'permits';
}

/** The end of a call or of a hold. */
export interface MetricEnd {
  readonly labels: MetricLabels;
  /** How long the call or the hold took. */
  readonly seconds: number;
  readonly outcome: LockOutcome;
  /** What the caller's promise rejects with, or why the lock was lost. */
  readonly error: unknown;
}

/** Records what a collector collects. Must not throw, because Node ends the process if a subscriber does. */
export interface MetricRecorder {
  /** Called when a call got its lock or was refused. */
  acquired(end: MetricEnd): void;
  /** Called when a lock was released or lost. */
  held(end: MetricEnd): void;
}

/**
 * The most families that are distinguished. A caller may take the first segment of a resource from its client, and each
 * family is a series that is never forgotten.
 */
const MOST_FAMILIES = 100;

/** The family of all calls beyond {@link MOST_FAMILIES}. */
const OTHER = 'other';

/** Collects the metrics of all locks of the process, for Prometheus and OpenTelemetry. */
export class LockCollector {
  private readonly families = new Set<string>();
  /** Each combination of labels that a call has had. */
  private readonly known = new Map<string, MetricLabels>();
  private readonly subscriptions: readonly (readonly [channel: Channel, listener: (event: unknown) => void])[];

  constructor(recorder: MetricRecorder) {
    const { granted, refused, released, lost } = lockChannels;
    this.subscriptions = [
      [granted, (event) => recorder.acquired(this.endOf(event as GrantedEvent, 'granted'))],
      [refused, (event) => recorder.acquired(this.endOf(event as RefusedEvent, (event as RefusedEvent).outcome))],
      [released, (event) => recorder.held(this.endOf(event as EndedEvent, 'released'))],
      [lost, (event) => recorder.held(this.endOf(event as LostEvent, 'lost'))],
    ];
  }

  start(): void {
    for (const [channel, listener] of this.subscriptions) channel.subscribe(listener);
  }

  stop(): void {
    for (const [channel, listener] of this.subscriptions) channel.unsubscribe(listener);
  }

  /** Returns how many calls hold locks or wait for them now. The number is 0 for labels of earlier calls. */
  count(what: 'holds' | 'waiting'): ReadonlyMap<MetricLabels, number> {
    const counts = new Map(Array.from(this.known.values(), (labels) => [labels, 0]));
    for (const state of instanceStates()) {
      for (const call of state[what]) {
        const labels = this.labelsOf({ ...call, instance: state.instance });
        counts.set(labels, (counts.get(labels) ?? 0) + 1);
      }
    }
    return counts;
  }

  private endOf(event: GrantedEvent | RefusedEvent | EndedEvent | LostEvent, outcome: LockOutcome): MetricEnd {
    const ms = 'heldMs' in event ? event.heldMs : event.waitedMs;
    const error = 'reason' in event ? event.reason : undefined;
    return { labels: this.labelsOf(event), seconds: ms / 1_000, outcome, error };
  }

  /** Returns the same object for the same labels. */
  private labelsOf(call: LockEvent): MetricLabels {
    const mode = call.permits === undefined ? call.mode : 'permits';
    const labels: MetricLabels = { name: call.instance, family: this.knownFamilyOf(call), mode };
    const series = JSON.stringify(labels);
    const known = this.known.get(series);
    if (known === undefined) this.known.set(series, labels);
    return known ?? labels;
  }

  private knownFamilyOf({ family }: LockCall): string {
    if (this.families.has(family)) return family;
    if (this.families.size >= MOST_FAMILIES) return OTHER;
    this.families.add(family);
    return family;
  }
}
