import type { LockService } from 'nestjs-redis-lock';

/** Makes a request first, so that those which follow in this tick travel together. */
export function inOneTick<T>(locks: LockService, requests: readonly (() => Promise<T>)[]): Promise<T>[] {
  locks.using('first:1', () => undefined).catch(() => undefined);
  return requests.map((request) => request());
}
