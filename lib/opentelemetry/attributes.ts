import type { Attributes } from '@opentelemetry/api';
import type { LockCallContext, LockOutcome } from '../events/tracing.js';
import type { MetricLabels } from '../events/lock-collector.js';

const NAMESPACE = 'redis_lock';

export const RESOURCE = `${NAMESPACE}.resource`;
export const FAMILY = `${NAMESPACE}.family`;
export const MODE = `${NAMESPACE}.mode`;
export const PERMITS = `${NAMESPACE}.permits`;
export const NAME = `${NAMESPACE}.name`;
export const METHOD = `${NAMESPACE}.method`;
export const LABEL = `${NAMESPACE}.label`;
export const FENCING_TOKEN = `${NAMESPACE}.fencing_token`;
export const OUTCOME = `${NAMESPACE}.outcome`;
export const ERROR_TYPE = 'error.type';

/**
 * Outcomes that are not errors of the operation, whatever the caller's promise rejects with. A call that does not wait
 * expects to be refused if others hold the lock.
 */
const NO_ERROR: ReadonlySet<LockOutcome | undefined> = new Set([
  'granted',
  'nested',
  'done',
  'aborted',
  'busy',
  'released',
]);

/** Returns the attributes of a span at its start. */
export function spanAttributes(call: LockCallContext): Attributes {
  const { resource, family, instance, mode, permits, method, label, fencingToken } = call;
  return {
    [RESOURCE]: resource,
    [FAMILY]: family,
    [MODE]: permits === undefined ? mode : 'permits',
    [NAME]: instance,
    ...(permits !== undefined && { [PERMITS]: permits }),
    ...(method !== undefined && { [METHOD]: method }),
    ...(label !== undefined && { [LABEL]: label }),
    ...(fencingToken !== undefined && { [FENCING_TOKEN]: fencingToken }),
  };
}

/** Returns the attributes of a metric. */
export function metricAttributes({ name, family, mode }: MetricLabels): Attributes {
  return { [NAME]: name, [FAMILY]: family, [MODE]: mode };
}

/** How a call or a hold has ended. */
type End = Pick<LockCallContext, 'outcome' | 'error'>;

/** Returns the attributes of the end of a call or a hold. */
export function outcomeAttributes(end: End): Attributes {
  const type = errorTypeOf(end);
  return { [OUTCOME]: end.outcome, ...(type !== undefined && { [ERROR_TYPE]: type }) };
}

/** Returns the code or the name of the error that a call or a hold has ended with. Undefined if it has not failed. */
export function errorTypeOf({ outcome, error }: End): string | undefined {
  if (NO_ERROR.has(outcome)) return undefined;
  if (!(error instanceof Error)) return '_OTHER';
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' ? code : error.name;
}
