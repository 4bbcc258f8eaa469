import { callersOf } from '../context/call-site.js';
import type { LockLostError } from '../errors.js';
import type { Grant, GrantHold } from '../lease/grant.js';
import type { Clock } from '../time/clock.js';

/** A caller's handle, to which its hold reports a loss. */
interface Handle {
  lost(error: LockLostError): void;
}

/** How many stack frames are kept for the place that acquired a lock. */
const FRAMES = 3;

/** How many calls per second read their stack. Reading it costs more than the rest of a call's own work. */
export const PLACES_PER_SECOND = 100;
const SECOND_MS = 1_000;

/**
 * The hold of a caller that releases its lock by itself. From the first renewal on, the grant has this hold in place of
 * the caller's handle, so that the handle can be collected.
 */
export class HandleHold implements GrantHold {
  readonly isKept = false;
  private readonly handle: WeakRef<Handle>;
  private kept: Handle | undefined = undefined;

  constructor(
    handle: Handle,
    readonly grant: Grant,
    /** The place that acquired the lock: the first frames of the stack. Undefined if it is not known. */
    readonly place: string | undefined,
    private readonly registry: FinalizationRegistry<HandleHold>,
  ) {
    this.handle = new WeakRef(handle);
  }

  /** Called with the handle if a caller has its signal, because work may rely on the signal alone. */
  keep(handle: Handle): void {
    this.kept = handle;
  }

  lost(error: LockLostError): void {
    (this.kept ?? this.handle.deref())?.lost(error);
  }

  /** Called when the handle is released. */
  end(): void {
    this.registry.unregister(this);
  }
}

/** Finds handles that were collected by the garbage collector before they were released. */
export class LeakedHandles {
  private readonly registry: FinalizationRegistry<HandleHold>;
  private readonly findsPlaces: boolean;
  private places = 0;
  private since = -Infinity;

  /** @param onLeaked called with a hold that nobody can release, if its lock is still held. */
  constructor(
    onLeaked: (hold: HandleHold) => void,
    private readonly clock: Pick<Clock, 'now'>,
  ) {
    this.registry = new FinalizationRegistry((hold) => {
      if (hold.grant.state === 'held') onLeaked(hold);
    });
    this.findsPlaces = process.env['NODE_ENV'] !== 'production';
  }

  /**
   * Returns the hold that the grant gets in place of a handle whose lock was renewed. Tracking every handle from its
   * grant on would double the cost of a short hold. Undefined if the lock ends by itself, because nobody renews it.
   */
  track(handle: Handle, grant: Grant, place: string | undefined): HandleHold | undefined {
    if (!grant.options.renew) return undefined;
    const hold = new HandleHold(handle, grant, place, this.registry);
    this.registry.register(handle, hold, hold);
    return hold;
  }

  /**
   * Returns the place that called `method`. Undefined in production, and for calls beyond the first
   * {@link PLACES_PER_SECOND} in a second. Never throws.
   */
  placeOf(method: (...args: never[]) => unknown): string | undefined {
    return this.findsPlaces && this.mayReadStack() ? callersOf(method, FRAMES) : undefined;
  }

  private mayReadStack(): boolean {
    const now = this.clock.now();
    if (now - this.since >= SECOND_MS) {
      this.since = now;
      this.places = 0;
    }
    this.places += 1;
    return this.places <= PLACES_PER_SECOND;
  }
}

/** Returns where a handle's lock was acquired, or why that is not known. */
export function describePlace(place: string | undefined): string {
  if (place !== undefined) return `acquired at ${place}`;
  if (process.env['NODE_ENV'] === 'production') return 'NODE_ENV is production, so the place is not known';
  return `the place is not known, because it is read for ${PLACES_PER_SECOND} calls a second only`;
}
