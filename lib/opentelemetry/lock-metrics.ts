import type { BatchObservableResult, Histogram, Meter, Observable } from '@opentelemetry/api';
import type { LockCall } from '../core/events/call.js';
import { FamilyLimit } from '../core/events/family-limit.js';
import { instanceStates } from '../core/state/instance-states.js';
import type { LockCallContext } from '../core/events/tracing.js';
import { metricAttributes, outcomeAttributes } from './attributes.js';

/** In seconds: from a grant without a round trip up to a wait of a minute. */
const BOUNDARIES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** The instruments of locks in one meter. */
export class LockMetrics {
  private readonly families = new FamilyLimit();
  private readonly acquireDuration: Histogram;
  private readonly holdDuration: Histogram;
  private readonly holdCount: Observable;
  private readonly waiterCount: Observable;
  private readonly observe = (result: BatchObservableResult): void => {
    for (const { instance, holds, waiting } of instanceStates()) {
      this.count(result, this.holdCount, instance, holds);
      this.count(result, this.waiterCount, instance, waiting);
    }
  };

  constructor(private readonly meter: Meter) {
    const advice = { explicitBucketBoundaries: BOUNDARIES };
    this.acquireDuration = meter.createHistogram('redis_lock.acquire.duration', {
      description: 'Time from a call to its grant or refusal.',
      unit: 's',
      advice,
    });
    this.holdDuration = meter.createHistogram('redis_lock.hold.duration', {
      description: 'Time from a grant to the release or the loss of the lock.',
      unit: 's',
      advice,
    });
    this.holdCount = meter.createObservableUpDownCounter('redis_lock.hold.count', {
      description: 'Locks that callers of this process hold.',
      unit: '{hold}',
    });
    this.waiterCount = meter.createObservableUpDownCounter('redis_lock.waiter.count', {
      description: 'Callers of this process that wait for a lock.',
      unit: '{waiter}',
    });
    meter.addBatchObservableCallback(this.observe, [this.holdCount, this.waiterCount]);
  }

  /** Records the end of a call. */
  acquired(call: LockCallContext): void {
    this.record(this.acquireDuration, call, call.waitedMs);
  }

  /** Records the end of a hold. */
  held(call: LockCallContext): void {
    this.record(this.holdDuration, call, call.heldMs);
  }

  /** Stops observing. */
  stop(): void {
    this.meter.removeBatchObservableCallback(this.observe, [this.holdCount, this.waiterCount]);
  }

  private record(histogram: Histogram, call: LockCallContext, ms = 0): void {
    const attributes = metricAttributes(call, call.instance, this.families.of(call.family));
    histogram.record(ms / 1000, { ...attributes, ...outcomeAttributes(call) });
  }

  private count(result: BatchObservableResult, metric: Observable, instance: string, calls: readonly LockCall[]): void {
    const counts = new Map<string, { readonly call: LockCall; readonly family: string; value: number }>();
    for (const call of calls) {
      const family = this.families.of(call.family);
      const series = JSON.stringify([family, call.mode, call.permits !== undefined]);
      const known = counts.get(series);
      if (known === undefined) counts.set(series, { call, family, value: 1 });
      else known.value += 1;
    }
    for (const { call, family, value } of counts.values())
      result.observe(metric, value, metricAttributes(call, instance, family));
  }
}
