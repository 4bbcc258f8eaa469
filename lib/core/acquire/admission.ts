import { runOutside } from '../context/async-context.js';
import { type Linked, LinkedList } from '../linked-list.js';
import type { LockStore } from '../store/lock-store.js';
import type { Timer } from '../time/clock.js';

/**
 * How many acquire requests for the locks of one server may be outstanding. More would go stale in the buffers of this
 * process and the machine, and delay the renewals and releases behind them.
 */
export const MOST_IN_FLIGHT = 1_000;

/** A request that waits to be sent. */
class Place implements Linked<Place>, Timer {
  previous: Place | undefined = undefined;
  next: Place | undefined = undefined;

  constructor(
    private readonly places: LinkedList<Place>,
    readonly send: () => void,
  ) {}

  cancel(): void {
    this.places.remove(this);
  }
}

/** The acquire requests for one server: those without a reply, and those that wait to be sent. */
export class Lane {
  private inFlight = 0;
  private readonly places = new LinkedList<Place>();

  constructor(private readonly most: number) {}

  /** How many requests wait to be sent. */
  get length(): number {
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
    const place = new Place(this.places, send);
    this.places.push(place);
    return place;
  }

  /** Called when a request that was sent has its outcome. */
  leave(): void {
    this.inFlight -= 1;
    // Runs outside the async context of the caller whose reply arrived, because the next request is not that caller's.
    if (this.length > 0) runOutside(() => this.sendNext());
  }

  private sendNext(): void {
    while (this.inFlight < this.most) {
      const { head } = this.places;
      if (head === undefined) return;
      this.places.remove(head);
      this.inFlight += 1;
      head.send();
    }
  }
}

/**
 * Limits how many acquire requests are outstanding for each server. The others wait in this process until an
 * outstanding one completes. Renewals and releases do not wait.
 */
export class Admission {
  /** By server. The only server of a store without `serverOf` is undefined. */
  private readonly lanes = new Map<string | undefined, Lane>();

  constructor(
    private readonly store: Pick<LockStore, 'serverOf'>,
    private readonly most = MOST_IN_FLIGHT,
  ) {}

  /** Returns the lane for a key's requests. */
  laneOf(key: string): Lane {
    const server = this.store.serverOf?.(key);
    let lane = this.lanes.get(server);
    if (lane === undefined) this.lanes.set(server, (lane = new Lane(this.most)));
    return lane;
  }

  /** How many requests wait to be sent. */
  get waiting(): number {
    let waiting = 0;
    for (const { length } of this.lanes.values()) waiting += length;
    return waiting;
  }
}
