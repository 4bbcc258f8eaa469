import type { LockService } from 'nestjs-redis-lock';

/** The part of an instance whose connection hears of hand-offs. */
export function subscriberOf(locks: LockService): object {
  return Reflect.get(Reflect.get(locks.engine.store, 'channel'), 'subscriber');
}
