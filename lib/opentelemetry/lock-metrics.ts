import type { BatchObservableResult, Histogram, Meter, Observable } from '@opentelemetry/api';
import type { LockCollector, MetricEnd, MetricRecorder } from '../events/lock-collector.js';
import { metricAttributes, outcomeAttributes } from './attributes.js';

/** In seconds: from a grant without a round trip up to a wait of a minute. */
const BOUNDARIES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** The instruments of locks in one meter. */
export class LockMetrics implements MetricRecorder {
  private readonly acquireDuration: Histogram;
  private readonly holdDuration: Histogram;
  private readonly holdCount: Observable;
  private readonly waiterCount: Observable;
  private readonly observe = (result: BatchObservableResult): void => {
    this.count(result, this.holdCount, 'holds');
    this.count(result, this.waiterCount, 'waiting');
  };

  constructor(
    private readonly meter: Meter,
    private readonly collector: LockCollector,
  ) {
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

  acquired(end: MetricEnd): void {
    record(this.acquireDuration, end);
  }

  held(end: MetricEnd): void {
    record(this.holdDuration, end);
  }

  /** Stops observing. */
  stop(): void {
    this.meter.removeBatchObservableCallback(this.observe, [this.holdCount, this.waiterCount]);
  }

  private count(result: BatchObservableResult, metric: Observable, counted: 'holds' | 'waiting'): void {
    for (const [labels, value] of this.collector.count(counted))
      result.observe(metric, value, metricAttributes(labels));
  }
}

function record(histogram: Histogram, end: MetricEnd): void {
  histogram.record(end.seconds, { ...metricAttributes(end.labels), ...outcomeAttributes(end) });
}
