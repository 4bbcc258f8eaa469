import { channel, type Channel } from 'node:diagnostics_channel';
import type { LockUnavailableError } from '../errors.js';
import { identityOf, instanceOf } from '../store/instance-id.js';
import type { AcquireReply } from '../store/lock-store.js';

/**
 * The outcome of one request for a lock.
 *
 * - `granted`: this instance has the lock.
 * - `held`: others hold the lock, or are ahead of this instance. The request is repeated.
 * - `queued`: the same, and this instance has a place in the store's queue.
 * - `handed-off`: the last holder has handed the lock off to this instance, without another request.
 * - `permits-mismatch`: the lock is held with a different number of permits.
 * - `expired`: the request arrived too late and had no effect.
 * - `failed`: the store cannot be reached, refuses the request, or did not reply in time.
 *
 * @publicApi
 */
export type AttemptOutcome = AcquireReply['status'] | 'queued' | 'handed-off' | 'failed';

/**
 * The event of {@link attemptChannel}.
 *
 * @publicApi
 */
export interface AttemptEvent {
  /** The name of the module instance, `default` if it has none. */
  readonly instance: string;
  /** The resource of the first waiting caller. */
  readonly resource: string;
  /** The Redis keys of the request, several if it requests several locks together. */
  readonly keys: readonly string[];
  /** The number of the attempt. Repeated requests and the handoff of one attempt share its number. */
  readonly attempt: number;
  readonly outcome: AttemptOutcome;
  /** The time from the last request to the outcome, in milliseconds. */
  readonly elapsedMs: number;
  /** The `identity` of the instance that holds the lock. Undefined if it is not known. */
  readonly heldBy: string | undefined;
  /** Whether this instance holds the lock. Undefined if it is not known. */
  readonly isOwn: boolean | undefined;
  /** How many instances wait in the store's queue before this one. Undefined if it is not known. */
  readonly queuedAhead: number | undefined;
  /** The holder's remaining lease in milliseconds. Undefined if it is not known, Infinity if it never expires. */
  readonly remainingMs: number | undefined;
  /** Why the request failed. */
  readonly error: LockUnavailableError | undefined;
}

/**
 * Publishes an {@link AttemptEvent} for each request for a lock, and for each handoff. Callers in one module instance
 * that want the same key share the requests. A caller that gets the lock from another local caller publishes no event.
 *
 * @publicApi
 */
export const attemptChannel: Channel<unknown, unknown> = channel('nestjs-redis-lock:attempt');

/** What an event shows about an attempt. */
interface ShownAttempt {
  readonly resource: string;
  readonly keys: readonly string[];
  readonly owner: string;
  readonly sentAt: number;
}

/** The reply or the failure of a request, or a handoff. */
export type AttemptResult = AcquireReply | LockUnavailableError | 'handed-off';

/** Publishes the outcome of a request. Call it only if there are subscribers. */
export function publishAttempt(attempt: ShownAttempt, result: AttemptResult, now: number, instance = 'default'): void {
  const { resource, keys, owner, sentAt } = attempt;
  const isReply = typeof result === 'object' && 'status' in result;
  const held = isReply && result.status === 'held' ? result : undefined;
  const event: AttemptEvent = {
    instance,
    resource,
    keys,
    // The owner itself is a secret, because it is enough to release the lock.
    attempt: Number(owner.slice(owner.lastIndexOf(':') + 1)),
    outcome: outcomeOf(result),
    elapsedMs: now - sentAt,
    heldBy: held?.holder && identityOf(held.holder.instanceId),
    isOwn: held?.holder && held.holder.instanceId === instanceOf(owner),
    queuedAhead: held?.ahead,
    remainingMs: held?.remainingMs,
    error: isReply || result === 'handed-off' ? undefined : result,
  };
  attemptChannel.publish(event);
}

function outcomeOf(result: AttemptResult): AttemptOutcome {
  if (result === 'handed-off') return result;
  if (!('status' in result)) return 'failed';
  return result.status === 'held' && result.queued ? 'queued' : result.status;
}
