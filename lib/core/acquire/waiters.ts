import type { Grant } from '../lease/grant.js';
import { type Linked, LinkedList } from '../linked-list.js';
import type { Clock } from '../time/clock.js';
import { leaseOf, type WaitOptions } from './acquire-options.js';
import { PendingCall } from './pending-call.js';

/** One local caller that waits for a lock. */
export class Waiter extends PendingCall<Grant> implements Linked<Waiter> {
  previous: Waiter | undefined = undefined;
  next: Waiter | undefined = undefined;
  /** How many requests without a grant were counted for this waiter. */
  ungranted = 0;
  /** The lease that it wants, in milliseconds. */
  readonly leaseMs: number;

  /**
   * @param resource the caller's name for the key. Several resources may share a key.
   * @param nested whether the caller runs in a hold of this engine. A shutdown still admits such a caller, so that the
   * hold can finish.
   * @param call the number of the call.
   */
  constructor(
    readonly resource: string,
    readonly options: WaitOptions,
    readonly enteredAt: number,
    readonly nested: boolean,
    clock: Clock,
    readonly call = 0,
  ) {
    super(clock);
    this.leaseMs = leaseOf(options);
  }

  /** The local moment at which it stops waiting. */
  get waitUntil(): number {
    return this.enteredAt + this.options.waitMs;
  }

  /** Ends the wait with a grant, which the caller receives once it is ready. */
  admit(grant: Grant): void {
    const { ready } = grant;
    this.resolve(ready === undefined ? grant : ready.then(() => grant));
    const { options } = this;
    if (options.onGranted === undefined) return;
    const { onGranted } = options;
    options.onGranted = undefined;
    onGranted(grant);
  }
}

/** Waiters in the order in which they arrived. A waiter may leave at any time. */
export class WaiterQueue extends LinkedList<Waiter> {
  private willWaitCount = 0;

  /** Whether any waiter in the queue has a `waitMs` above 0. */
  get willWait(): boolean {
    return this.willWaitCount > 0;
  }

  /** Whether all waiters in the queue have a `waitMs` above 0. */
  get allWillWait(): boolean {
    return this.willWaitCount === this.length;
  }

  override push(waiter: Waiter): void {
    super.push(waiter);
    if (waiter.options.waitMs > 0) this.willWaitCount += 1;
  }

  override remove(waiter: Waiter): boolean {
    if (!super.remove(waiter)) return false;
    if (waiter.options.waitMs > 0) this.willWaitCount -= 1;
    return true;
  }

  /** Yields all waiters in order, skipping any that leave during the iteration. */
  *[Symbol.iterator](): Generator<Waiter> {
    // A waiter that leaves may cause others to leave, including the next.
    const waiters: Waiter[] = [];
    for (let waiter = this.head; waiter !== undefined; waiter = waiter.next) waiters.push(waiter);
    for (const waiter of waiters) if (this.has(waiter)) yield waiter;
  }
}
