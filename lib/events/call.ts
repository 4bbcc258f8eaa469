import { randomBytes } from 'node:crypto';
import { shownLabel } from '../common/format-value.js';
import type { LockMode } from '../contract/lock-mode.js';

/**
 * A call for one lock, as events and traces show it. A call for several locks counts as one call for each lock.
 *
 * @publicApi
 */
export interface LockCall {
  /** The same in all events of the call and its hold. No other call of the process has it. */
  readonly id: string;
  /** The resource that the caller named, `goods:300`. */
  readonly resource: string;
  /** The resource up to its first colon. For a `@Locked` template that begins with a placeholder, the template. */
  readonly family: string;
  /** The Redis key of the resource, `{lock_goods}:300`. */
  readonly key: string;
  /** Also `shared` for a lock with permits. */
  readonly mode: 'exclusive' | 'shared';
  /** The maximum number of holders. Undefined for a lock without permits. */
  readonly permits: number | undefined;
  /** The `@Locked` or `@WhileLeader` method, `GoodsController.buy`, or the function of `wrap()`. Or undefined. */
  readonly method: string | undefined;
  /** The `label` of the call: up to 128 printable characters. */
  readonly label: string | undefined;
}

/** What events and traces show of a call, besides its resource. */
export interface CallDetails {
  readonly mode: LockMode;
  /** The caller's name for the call, of any length. */
  readonly label?: string | undefined;
  /** The `@Locked` method, `GoodsController.buy`. Undefined for a call of `LockService`. */
  readonly method?: string | undefined;
  /** The family of the resource, if it is not its first segment. */
  readonly family?: string | undefined;
}

/** The resource that a call names, and the key that it is locked under. */
export interface Target {
  readonly resource: string;
  readonly key: string;
  /** The number of the call, which its events and its hold also have. See {@link nextCall}. */
  readonly call?: number | undefined;
}

/** Keeps the ids of processes apart. */
const PROCESS = randomBytes(6).toString('hex');

let calls = 0;

/** Returns the number of a new call. Each lock of a call for several locks has its own number. */
export function nextCall(): number {
  return ++calls;
}

/** Returns the number of the latest call. Later calls have higher numbers. */
export function latestCall(): number {
  return calls;
}

/** Returns the public description of a call. */
export function describeCall({ resource, key, call = 0 }: Target, details: CallDetails): LockCall {
  const { mode, method } = details;
  return {
    id: `${PROCESS}-${call}`,
    resource,
    family: details.family ?? firstSegmentOf(resource),
    key,
    mode: mode === 'exclusive' ? mode : 'shared',
    permits: typeof mode === 'number' ? mode : undefined,
    method,
    label: shownLabel(details.label),
  };
}

/** Returns `goods:300 by Shop.buy (request 7)` for errors and the log, without what is not known. */
export function nameOfCall(resource: string, { method, label }: CallDetails): string {
  const by = method === undefined ? '' : ` by ${method}`;
  return label === undefined ? `${resource}${by}` : `${resource}${by} (${shownLabel(label)})`;
}

/**
 * Returns the family of a template's resources: the template, if its first segment has a placeholder. Undefined if the
 * first segment of each resource is the family.
 */
export function familyOfTemplate(template: string): string | undefined {
  return firstSegmentOf(template).includes('<') ? template : undefined;
}

function firstSegmentOf(resource: string): string {
  const end = resource.indexOf(':');
  return end === -1 ? resource : resource.slice(0, end);
}
