import { LockConfigError } from '../core/errors.js';
import { kindOf } from '../core/format-value.js';
import { isLockService, type LockService } from '../lock.service.js';
import type { LockedMethod } from './locked-method.js';

/** Returns the property that holds the lock service of a module instance. All `@Locked` methods of a class share it. */
export function serviceProperty(name: string): symbol {
  return Symbol.for(`nestjs-redis-lock:service:${name}`);
}

/**
 * Returns the lock service of the instance that a `@Locked` method was called on.
 *
 * @throws LockConfigError if the instance has none, or if a test has replaced it with something else.
 */
export function serviceOf({ name, service }: LockedMethod, instance: unknown): LockService {
  const found = (instance as Record<symbol, unknown> | undefined)?.[service];
  if (isLockService(found)) return found;
  if (found === undefined) {
    throw new LockConfigError(
      `${name} is @Locked, but \`this\` has no lock service: a factory, a value or \`new\` made it, or the method ` +
        `was called without its instance, or the application is not initialized. Let Nest make it from its class, or ` +
        `pass it to bindLocks(instance, locks). In a unit test, use withLocks() of nestjs-redis-lock/testing.`,
    );
  }
  throw new LockConfigError(
    `${name} is @Locked, but LockService was replaced by something that is not a lock service: ${kindOf(found)}. ` +
      `Replace it with createTestLocks(), or use withMemoryLocks(Test.createTestingModule(…)), ` +
      `both of nestjs-redis-lock/testing. They lock in memory.`,
  );
}
