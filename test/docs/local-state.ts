import { type LockService } from 'nestjs-redis-lock';

export function longHolds(locks: LockService, longerThanMs: number): string[] {
  const { holds } = locks.local();
  const long = holds.filter(({ heldMs }) => heldMs > longerThanMs);
  return long.map(({ resource, method, label }) => `${resource} is held by ${method} (${label})`);
}
