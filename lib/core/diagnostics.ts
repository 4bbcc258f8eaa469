import { channel } from 'node:diagnostics_channel';
import type { Clock } from './time/clock.js';
import type { Grant } from './lease/grant.js';

/** What every event of a lock carries. Owners are never published: who knows one could release the lock. */
export interface LockEvent {
  /** What the user named, `goods:300`. */
  readonly resource: string;
  /** The Redis key made from it. */
  readonly key: string;
  /** The name of the module instance, `default` if it has none. */
  readonly instance: string;
}

/** `nestjs-redis-lock:granted` */
export interface GrantedEvent extends LockEvent {
  /** From the call to the grant, in milliseconds. */
  readonly waitedMs: number;
  readonly fencingToken: number | undefined;
}

/** `nestjs-redis-lock:refused` */
export interface RefusedEvent extends LockEvent {
  /** From the call to the refusal, in milliseconds. */
  readonly waitedMs: number;
  /** What the caller is given: an error of this library, or its own signal's reason. */
  readonly reason: unknown;
}

/** `nestjs-redis-lock:lost` and `nestjs-redis-lock:released` */
export interface EndedEvent extends LockEvent {
  /** From the grant to the end, in milliseconds. */
  readonly heldMs: number;
}

/**
 * The `node:diagnostics_channel` channels, by name. Without a subscriber an event costs one property read.
 *
 * @publicApi
 */
export const lockChannels = {
  /** {@link LockEvent}: a caller asked for a lock. */
  asked: channel('nestjs-redis-lock:asked'),
  /** {@link GrantedEvent}: a caller got it. */
  granted: channel('nestjs-redis-lock:granted'),
  /** {@link RefusedEvent}: a caller did not get it. */
  refused: channel('nestjs-redis-lock:refused'),
  /** {@link LockEvent}: a held lock has a new lease. */
  extended: channel('nestjs-redis-lock:extended'),
  /** {@link EndedEvent}: a hold ended before its work did. */
  lost: channel('nestjs-redis-lock:lost'),
  /** {@link EndedEvent}: a hold ended with its work. */
  released: channel('nestjs-redis-lock:released'),
} as const;

/** Publishes one module instance's events. Without a subscriber nothing is made. */
export class LockEvents {
  constructor(private readonly instance: string) {}

  asked(target: { readonly resource: string; readonly key: string }): void {
    if (lockChannels.asked.hasSubscribers) lockChannels.asked.publish(this.of(target));
  }

  granted(grant: Grant, waitedMs: number): void {
    if (!lockChannels.granted.hasSubscribers) return;
    lockChannels.granted.publish({ ...this.of(grant), waitedMs, fencingToken: grant.token } satisfies GrantedEvent);
  }

  refused(target: { readonly resource: string; readonly key: string }, waitedMs: number, reason: unknown): void {
    if (!lockChannels.refused.hasSubscribers) return;
    lockChannels.refused.publish({ ...this.of(target), waitedMs, reason } satisfies RefusedEvent);
  }

  extended(grant: Grant): void {
    if (lockChannels.extended.hasSubscribers) lockChannels.extended.publish(this.of(grant));
  }

  lost(grant: Grant, clock: Clock): void {
    if (!lockChannels.lost.hasSubscribers) return;
    const heldMs = clock.now() - grant.grantedAt;
    lockChannels.lost.publish({ ...this.of(grant), heldMs } satisfies EndedEvent);
  }

  released(grant: Grant, clock: Clock): void {
    if (!lockChannels.released.hasSubscribers) return;
    const heldMs = clock.now() - grant.grantedAt;
    lockChannels.released.publish({ ...this.of(grant), heldMs } satisfies EndedEvent);
  }

  private of({ resource, key }: { readonly resource: string; readonly key: string }): LockEvent {
    return { resource, key, instance: this.instance };
  }
}
