import { type Deferred, deferred } from '../../support/async.js';

// Kept here for the specs that still import them from this file.
export { type Deferred, deferred };

/** One call inside a room; the test says how it ends. */
export interface Visit {
  readonly of: unknown;
  leave(): void;
  fail(error: unknown): void;
}

/** Where a method under test stays until the test lets it go; counts who is inside. */
export class Room {
  inside = 0;
  /** The most that were ever inside at once. */
  most = 0;
  visits = 0;
  /** What the visits were made for, in order. */
  readonly visited: unknown[] = [];
  private readonly arrivals: Visit[] = [];
  private readonly expected: Deferred<Visit>[] = [];

  /** Answers when the test lets the visit go. */
  async stay<T>(of?: T): Promise<T | undefined> {
    const over = deferred();
    this.visits += 1;
    this.visited.push(of);
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

  /** Waits for the next visit. */
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
