import { type OpenMetricsContentType, register as globalRegister, type Registry } from 'prom-client';
import { aFunction, checkOptions, hasMethods, type OptionRules } from '../common/check-options.js';
import type { LockCall } from '../events/call.js';
import { LockMetrics } from './lock-metrics.js';

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
   * The start of every metric's name: `shop_` for `shop_redis_lock_holds`.
   *
   * @default ''
   */
  readonly prefix?: string | undefined;
  /**
   * The upper limits of the buckets of both histograms, in seconds, in rising order.
   *
   * @default [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
   */
  readonly buckets?: readonly number[] | undefined;
  /**
   * Returns the label `family` of a call. It should return few different texts, and never an id. All families after the
   * first 100 count as `other`, so that clients that choose a part of the resource cannot create an unlimited number of
   * series. If the function throws, the error is ignored and the family is `other`.
   *
   * @default the `family` of the call: the resource up to its first colon
   */
  readonly familyOf?: ((call: LockCall) => string) | undefined;
}

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

const RULES: OptionRules<LockMetricsOptions> = {
  register: {
    allowed: 'a Registry of prom-client',
    fits: (value) => hasMethods(value, ['registerMetric', 'getSingleMetric', 'removeSingleMetric']),
  },
  prefix: {
    allowed: 'the start of a metric name: letters, digits, _ and :, with no digit first',
    fits: (value) => typeof value === 'string' && /^(?:[A-Za-z_:][\w:]*)?$/.test(value),
  },
  buckets: {
    allowed: 'a list of rising numbers of seconds',
    fits: (value) => Array.isArray(value) && value.length > 0 && value.every(isRising),
  },
  familyOf: aFunction,
};

/**
 * Collects metrics of all locks of the process for Prometheus, from now on. Returns a function that stops this and
 * removes the metrics from the registry.
 *
 * Call it once, before or after the application starts. The resource is never a label, so a thousand resources of one
 * family add no series.
 *
 * @throws {LockConfigError} if an option is not allowed, or if the registry already has these metrics.
 *
 * @publicApi
 */
export function collectLockMetrics(options: LockMetricsOptions = {}): () => void {
  const {
    register = globalRegister,
    prefix = '',
    buckets = BUCKETS,
    familyOf,
  } = checkOptions('collectLockMetrics()', options, RULES);
  const metrics = new LockMetrics({ register, prefix, buckets, familyOf });
  metrics.start();
  return () => metrics.stop();
}

// The bucket without an upper limit is always there.
function isRising(value: unknown, index: number, all: readonly unknown[]): boolean {
  return Number.isFinite(value) && Number(value) > Number(index === 0 ? 0 : all[index - 1]);
}
