import { type Deferred, deferred } from '../../support/async.js';

/** One call of a method under test. The test ends it. */
export interface Visit {
  readonly of: unknown;
  leave(): void;
  fail(error: unknown): void;
}

/** Holds the calls of a method under test until the test ends them, and counts them. */
export class Room {
  /** The number of calls at present. */
  inside = 0;
  /** The largest number of concurrent calls so far. */
  most = 0;
  /** The number of calls so far. */
  visits = 0;
  private readonly arrivals: Visit[] = [];
  private readonly expected: Deferred<Visit>[] = [];

  /** Called by the method under test. Settles when the test ends the visit. */
  async stay<T>(of?: T): Promise<T | undefined> {
    const over = deferred();
    this.visits += 1;
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
    this.arrive({ of, leave: () => over.resolve(), fail: (error) => over.reject(error) });
    try {
      await over.promise;
    } finally {
      this.inside -= 1;
    }
    return of;
  }

  /** Waits for the next call. */
  next(): Promise<Visit> {
    const arrived = this.arrivals.shift();
    if (arrived !== undefined) return Promise.resolve(arrived);
    const visit = deferred<Visit>();
    this.expected.push(visit);
    return visit.promise;
  }

  private arrive(visit: Visit): void {
    const waiting = this.expected.shift();
    if (waiting === undefined) this.arrivals.push(visit);
    else waiting.resolve(visit);
  }
}
