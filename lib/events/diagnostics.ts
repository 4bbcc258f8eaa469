import { channel, type Channel } from 'node:diagnostics_channel';
import { type CallDetails, describeCall, type LockCall, type Target } from './call.js';
import { LockError, type LockLostError, LockTimeoutError } from '../common/errors.js';
import {
  isTraced,
  type LockCallContext,
  type LockOutcome,
  traceEnd,
  traceGrant,
  traceRefusal,
  traceRequest,
} from './tracing.js';
import type { Clock } from '../clock/clock.js';

/** The fields of every event. Owners are never published, because an owner is enough to release the lock. */
export interface LockEvent extends LockCall {
  /** The name of the module instance, `default` if it has none. */
  readonly instance: string;
}

/** The event of `nestjs-redis-lock:granted`. */
export interface GrantedEvent extends LockEvent {
  /** The time from the call to the grant, in milliseconds. */
  readonly waitedMs: number;
  /** The fencing token of the grant. Undefined if the store gives none. */
  readonly fencingToken: number | undefined;
}

/** The event of `nestjs-redis-lock:refused`. */
export interface RefusedEvent extends LockEvent {
  /** The time from the call to the refusal, in milliseconds. */
  readonly waitedMs: number;
  /**
   * What the caller's promise rejects with: an error of this library, or the reason of the caller's signal. Undefined
   * for `done`, because the call returns undefined.
   */
  readonly reason: unknown;
  /** The kind of the reason: `timeout` for a `LockTimeoutError`, or `busy` if the call did not wait. */
  readonly outcome: LockOutcome;
}

/** The fields of events about the end of a hold, and about a lock that is held for too long. */
export interface EndedEvent extends LockEvent {
  /** The time from the grant to the end, or to the event of a lock that is still held, in milliseconds. */
  readonly heldMs: number;
}

/** The event of `nestjs-redis-lock:released`. */
export interface ReleasedEvent extends EndedEvent {
  /** Whether the hold was detached. The lock is then kept for callers with its ticket. */
  readonly isDetached: boolean;
}

/** The event of `nestjs-redis-lock:lost`. */
export interface LostEvent extends EndedEvent {
  /** Why the lock was lost, as the caller gets it: the lease ran out, or the lock was released by force. */
  readonly reason: LockLostError | undefined;
}

/**
 * The `node:diagnostics_channel` channels by name. An event without a subscriber costs one property read. Subscribers
 * run synchronously.
 *
 * @publicApi
 */
export const lockChannels = {
  /** {@link LockEvent}: a caller requested a lock. */
  requested: channel('nestjs-redis-lock:requested'),
  /** {@link GrantedEvent}: a caller was granted a lock. */
  granted: channel('nestjs-redis-lock:granted'),
  /** {@link RefusedEvent}: a caller was refused a lock. */
  refused: channel('nestjs-redis-lock:refused'),
  /** {@link LockEvent}: a held lock was renewed. */
  extended: channel('nestjs-redis-lock:extended'),
  /** {@link LostEvent}: a lock was lost before it was released. */
  lost: channel('nestjs-redis-lock:lost'),
  /** {@link ReleasedEvent}: a lock was released or detached. */
  released: channel('nestjs-redis-lock:released'),
  /** {@link EndedEvent}: a lock is renewed for longer than its `warnHeldMs`. It is still held. Once for each lock. */
  overdue: channel('nestjs-redis-lock:overdue'),
} as const;

/**
 * The event of {@link storeChannel}.
 *
 * @publicApi
 */
export interface StoreEvent {
  /** The name of the module instance, `default` if it has none. */
  readonly instance: string;
  /** The server, if the store has several. Undefined stands for the whole store. */
  readonly server: string | undefined;
  /** Whether the server can be reached again. */
  readonly isUp: boolean;
  /** Why the server cannot be reached. Undefined if it can, or if a request got no reply in time. */
  readonly error: Error | undefined;
}

/**
 * Publishes a {@link StoreEvent} when a server cannot be reached, and when it replies again.
 *
 * @publicApi
 */
export const storeChannel: Channel<unknown, unknown> = channel('nestjs-redis-lock:store');

/** The lock that an event is about. */
interface EventLock extends Target {
  readonly token: number | undefined;
  readonly grantedAt: number;
  readonly options: CallDetails;
  readonly loss: LockLostError | undefined;
  /** Set if the start of the hold was published to the subscribers of traces. */
  trace: LockCallContext | undefined;
}

/** The options of a call that was refused. */
interface RefusedOptions extends CallDetails {
  readonly signal?: AbortSignal | undefined;
  readonly waitMs?: number;
}

/** Publishes the events of one module instance. Builds no event without a subscriber. */
export class LockEvents {
  constructor(
    private readonly instance: string,
    private readonly channels: typeof lockChannels = lockChannels,
  ) {}

  requested(target: Target, options: CallDetails): void {
    if (isTraced()) traceRequest(target, options, this.instance);
    if (this.channels.requested.hasSubscribers) this.channels.requested.publish(this.of(target, options));
  }

  granted(lock: EventLock, target: Target, waitedMs: number): void {
    if (this.channels.granted.hasSubscribers) {
      const event: GrantedEvent = { ...this.of(lock, lock.options), waitedMs, fencingToken: lock.token };
      this.channels.granted.publish(event);
    }
    if (!isTraced()) return;
    const granted = { instance: this.instance, waitedMs, fencingToken: lock.token };
    lock.trace = traceGrant(target, lock, lock.options, granted);
    // The lock was lost before its caller's turn, so nothing else publishes the end.
    const { loss } = lock;
    if (loss !== undefined) traceEnd(lock.trace, { heldMs: loss.elapsedMs ?? 0, outcome: 'lost', error: loss });
  }

  /** @param known how the call ended. Default: the kind of the reason. */
  refused(target: Target, options: RefusedOptions, waitedMs: number, reason: unknown, known?: LockOutcome): void {
    const { hasSubscribers } = this.channels.refused;
    const hasTraces = isTraced();
    if (!hasSubscribers && !hasTraces) return;
    const outcome = known ?? outcomeOf(reason, options);
    if (hasSubscribers) {
      const event: RefusedEvent = { ...this.of(target, options), waitedMs, reason, outcome };
      this.channels.refused.publish(event);
    }
    if (hasTraces) traceRefusal(target, { waitedMs, outcome, error: outcome === 'nested' ? undefined : reason });
  }

  extended(lock: EventLock): void {
    if (this.channels.extended.hasSubscribers) this.channels.extended.publish(this.of(lock, lock.options));
  }

  lost(lock: EventLock, clock: Clock): void {
    const event = this.ended('lost', lock, clock, this.channels.lost.hasSubscribers);
    if (event !== undefined) this.channels.lost.publish({ ...event, reason: lock.loss } satisfies LostEvent);
  }

  released(lock: EventLock, clock: Clock, isDetached = false): void {
    const event = this.ended('released', lock, clock, this.channels.released.hasSubscribers);
    if (event !== undefined) this.channels.released.publish({ ...event, isDetached } satisfies ReleasedEvent);
  }

  overdue(lock: EventLock, now: number): void {
    if (!this.channels.overdue.hasSubscribers) return;
    const event: EndedEvent = { ...this.of(lock, lock.options), heldMs: now - lock.grantedAt };
    this.channels.overdue.publish(event);
  }

  store(server: string | undefined, isUp: boolean, error?: Error): void {
    if (!storeChannel.hasSubscribers) return;
    storeChannel.publish({ instance: this.instance, server, isUp, error } satisfies StoreEvent);
  }

  /** Traces the end of a hold. Returns its event if that has subscribers. */
  private ended(outcome: LockOutcome, lock: EventLock, clock: Clock, hasSubscribers: boolean) {
    const { trace } = lock;
    if (!hasSubscribers && trace === undefined) return undefined;
    const heldMs = clock.now() - lock.grantedAt;
    if (trace !== undefined) traceEnd(trace, { heldMs, outcome, error: lock.loss });
    return hasSubscribers ? ({ ...this.of(lock, lock.options), heldMs } satisfies EndedEvent) : undefined;
  }

  private of(target: Target, details: CallDetails): LockEvent {
    return { ...describeCall(target, details), instance: this.instance };
  }
}

/** Returns the kind of a refusal. */
function outcomeOf(reason: unknown, { signal, waitMs }: RefusedOptions): LockOutcome {
  if (waitMs === 0 && reason instanceof LockTimeoutError) return 'busy';
  if (reason instanceof LockError) return reason.code.slice('LOCK_'.length).toLowerCase() as LockOutcome;
  return signal?.aborted ? 'aborted' : 'failed';
}
