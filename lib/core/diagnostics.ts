import { channel } from 'node:diagnostics_channel';
import type { LockLostError } from './errors.js';
import type { Clock } from './time/clock.js';

/** The fields of every event. Owners are never published, because an owner is enough to release the lock. */
export interface LockEvent {
  /** The resource that the caller named, `goods:300`. */
  readonly resource: string;
  /** The Redis key of the resource, `{lock_goods}:300`. */
  readonly key: string;
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
  /** What the caller's promise rejects with: an error of this library, or the reason of the caller's signal. */
  readonly reason: unknown;
}

/** The event of `nestjs-redis-lock:released`, and what that of `nestjs-redis-lock:lost` has in common with it. */
export interface EndedEvent extends LockEvent {
  /** The time from the grant to the end, in milliseconds. */
  readonly heldMs: number;
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
  /** {@link EndedEvent}: a lock was released. */
  released: channel('nestjs-redis-lock:released'),
} as const;

/** The subject of an event. */
interface LockTarget {
  readonly resource: string;
  readonly key: string;
}

/** The grant that an event is about. */
interface EventGrant extends LockTarget {
  readonly token: number | undefined;
  readonly grantedAt: number;
  readonly loss?: LockLostError | undefined;
}

/** Publishes the events of one module instance. Builds no event without a subscriber. */
export class LockEvents {
  constructor(private readonly instance: string) {}

  requested(target: LockTarget): void {
    if (lockChannels.requested.hasSubscribers) lockChannels.requested.publish(this.of(target));
  }

  granted(grant: EventGrant, waitedMs: number): void {
    if (!lockChannels.granted.hasSubscribers) return;
    lockChannels.granted.publish({ ...this.of(grant), waitedMs, fencingToken: grant.token } satisfies GrantedEvent);
  }

  refused(target: LockTarget, waitedMs: number, reason: unknown): void {
    if (!lockChannels.refused.hasSubscribers) return;
    lockChannels.refused.publish({ ...this.of(target), waitedMs, reason } satisfies RefusedEvent);
  }

  extended(grant: LockTarget): void {
    if (lockChannels.extended.hasSubscribers) lockChannels.extended.publish(this.of(grant));
  }

  lost(grant: EventGrant, clock: Clock): void {
    if (!lockChannels.lost.hasSubscribers) return;
    const heldMs = clock.now() - grant.grantedAt;
    lockChannels.lost.publish({ ...this.of(grant), heldMs, reason: grant.loss } satisfies LostEvent);
  }

  released(grant: EventGrant, clock: Clock): void {
    if (!lockChannels.released.hasSubscribers) return;
    const heldMs = clock.now() - grant.grantedAt;
    lockChannels.released.publish({ ...this.of(grant), heldMs } satisfies EndedEvent);
  }

  private of({ resource, key }: LockTarget): LockEvent {
    return { resource, key, instance: this.instance };
  }
}
