import type { StorePing } from 'nestjs-redis-lock';
import type { BoardLock, BoardSource } from '../../lib/board/board-source.js';

/** Returns a lock as a store describes it. */
export function boardLock(resource: string, changes: Partial<BoardLock> = {}): BoardLock {
  return {
    resource,
    key: `{lock_}${resource}`,
    holder: 'api-1-AAAAAAAAAAAAAAAA',
    identity: 'api-1',
    expiresInMs: 30_000,
    fencingToken: 7,
    mode: 'exclusive',
    permits: undefined,
    others: [],
    waiting: [],
    ...changes,
  };
}

/** Returns `count` waiting instances. */
export function boardWaiters(count: number): BoardLock['waiting'] {
  return Array.from({ length: count }, (_, i) => {
    return { waiter: `waiter-${i}`, identity: `api-${i + 2}`, mode: 'exclusive' as const, permits: undefined };
  });
}

/** A source whose locks the test sets. It counts the reads. */
export class FakeSource implements BoardSource {
  readonly identity = 'api-1';
  locks: readonly BoardLock[] = [];
  own: readonly BoardLock[] = [];
  problem: Error | undefined;
  reads = 0;
  pings = 0;
  /** The resources that are held exclusively by now. */
  readonly exclusive = new Set<string>();
  readonly released: (readonly [resource: string, ifToken: number | undefined])[] = [];

  async *list(): AsyncIterable<BoardLock> {
    this.reads += 1;
    if (this.problem !== undefined) throw this.problem;
    yield* this.locks;
  }

  local(): readonly BoardLock[] {
    return this.own;
  }

  ping(): Promise<StorePing> {
    this.pings += 1;
    if (this.problem !== undefined) return Promise.reject(this.problem);
    const servers = [{ server: 'redis:6379', isUp: true, latencyMs: 0.4, error: undefined }];
    return Promise.resolve({ handoff: 'subscription', degraded: undefined, isUp: true, servers });
  }

  isExclusive(resource: string): Promise<boolean> {
    return Promise.resolve(this.exclusive.has(resource));
  }

  forceRelease(resource: string, { ifToken }: { readonly ifToken?: number }): Promise<boolean> {
    this.released.push([resource, ifToken]);
    return Promise.resolve(true);
  }
}
