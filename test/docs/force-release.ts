import type { LockService } from 'nestjs-redis-lock';

export async function freeStuckLock(locks: LockService, resource: string): Promise<boolean> {
  const held = await locks.inspect(resource);
  if (!held?.isHeld) return false;
  return locks.forceRelease(resource, { ifToken: held.fencingToken });
}
