import 'reflect-metadata';
import { LockConfigError } from '../../common/errors.js';
import { describeMethod } from '../method-below.js';

const CURRENT_LOCK = 'nestjs-redis-lock:current-lock';

/**
 * Injects the held lock into a parameter of a `@Locked` method: a `Lock`, or a `MultiLock` if the method locks several
 * resources. Use it for the fencing token, for the signal, or to extend the lease. The lock replaces the argument that
 * the caller passes. Nest's parameter decorators still work on the same parameter. In a handler, `release()` does not
 * release the lock before the response is complete.
 *
 * @throws {LockConfigError} at decoration, if the decorator is on a parameter of a constructor.
 *
 * @publicApi
 */
export function CurrentLock(): ParameterDecorator {
  return (target, propertyKey, index) => {
    if (propertyKey === undefined) {
      throw new LockConfigError(`${describeMethod(target, propertyKey)}: @CurrentLock() is for parameters of methods.`);
    }
    // Not among Nest's route arguments, where Nest would resolve the parameter and pipes would transform it.
    Reflect.defineMetadata(CURRENT_LOCK, [index, ...currentLockIndexes(target, propertyKey)], target, propertyKey);
  };
}

/** Returns the indexes of the parameters with `@CurrentLock()`, without those of an overridden method. */
export function currentLockIndexes(target: object, propertyKey: string | symbol): readonly number[] {
  return (Reflect.getOwnMetadata(CURRENT_LOCK, target, propertyKey) as readonly number[] | undefined) ?? [];
}
