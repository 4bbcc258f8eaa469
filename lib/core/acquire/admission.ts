import { runOutside } from '../context/async-context.js';
import type { LockStore } from '../store/lock-store.js';
import type { Timer } from '../time/clock.js';

/**
 * How many acquire requests for the locks of one server may be outstanding. More would go stale in the buffers of this
 * process and the machine, and delay the renewals and releases behind them.
 */
export const MOST_IN_FLIGHT = 1_000;

/** A request that waits to be sent. */
interface Place {
  /** Undefined once the request has stopped waiting. */
  send: (() => void) | undefined;
}

/** Served places are removed once there are this many, so that the list does not grow forever. */
const MANY_SERVED = 1_000;

/** The acquire requests for one server: those without a reply, and those that wait to be sent. */
export class Lane {
  /** How many requests wait to be sent. */
  length = 0;
  private inFlight = 0;
  /** In order. */
  // An array, because finding the first element of a `Set` is O(n) after many removals.
  private places: Place[] = [];
  /** The first place that has not been served. */
  private next = 0;

  constructor(private readonly most: number) {}

  /** How many places are kept. @internal */
  get size(): number {
    return this.places.length;
  }

  /** Counts a request that is sent now. Returns false if it has to wait. */
  tryEnter(): boolean {
    if (this.inFlight >= this.most) return false;
    this.inFlight += 1;
    return true;
  }

  /** Waits until the request may be sent, and then calls `send`. The request counts from then on. */
  wait(send: () => void): Timer {
    const place: Place = { send };
    this.places.push(place);
    this.length += 1;
    const cancel = (): void => {
      if (place.send === undefined) return;
      place.send = undefined;
      this.length -= 1;
    };
    return { cancel };
  }

  /** Called when a request that was sent has its outcome. */
  leave(): void {
    this.inFlight -= 1;
    // Runs outside the async context of the caller whose reply arrived, because the next request is not that caller's.
    if (this.length > 0) runOutside(() => this.sendNext());
  }

  private sendNext(): void {
    while (this.length > 0 && this.inFlight < this.most) {
      const place = this.places[this.next];
      this.next += 1;
      const { send } = place;
      if (send === undefined) continue;
      place.send = undefined;
      this.length -= 1;
      this.inFlight += 1;
      send();
    }
    if (this.length > 0 && (this.next < MANY_SERVED || this.next * 2 < this.places.length)) return;
    this.places = this.length === 0 ? [] : this.places.slice(this.next);
    this.next = 0;
  }
}

/**
 * Limits how many acquire requests are outstanding for each server. The others wait in this process until an
 * outstanding one completes. Renewals and releases do not wait.
 */
export class Admission {
  private readonly lanes = new Map<string | undefined, Lane>();
  private readonly single: Lane | undefined;

  constructor(
    private readonly store: Pick<LockStore, 'serverOf'>,
    private readonly most = MOST_IN_FLIGHT,
  ) {
    if (store.serverOf === undefined) this.single = new Lane(most);
  }

  /** Returns the lane for a key's requests. */
  laneOf(key: string): Lane {
    if (this.single !== undefined) return this.single;
    const server = this.store.serverOf?.(key);
    let lane = this.lanes.get(server);
    if (lane === undefined) this.lanes.set(server, (lane = new Lane(this.most)));
    return lane;
  }

  /** How many requests wait to be sent. */
  get waiting(): number {
    if (this.single !== undefined) return this.single.length;
    let waiting = 0;
    for (const { length } of this.lanes.values()) waiting += length;
    return waiting;
  }
}
