import 'reflect-metadata';
import { LockConfigError } from '../core/errors.js';
import { describeMethod } from './describe-method.js';

const CURRENT_LOCK = 'nestjs-redis-lock:current-lock';

/**
 * Marks the parameter of a `@Locked` method that gets the `Lock` it runs under, a `MultiLock` if it locks several resources: for its fencing token, its signal, or to
 * extend it. Whatever the caller passes there is replaced. Nest's own parameter decorators beside it work as ever.
 *
 * @throws {LockConfigError} at decoration, on a constructor's parameter.
 *
 * @publicApi
 */
export function CurrentLock(): ParameterDecorator {
  return (target, propertyKey, index) => {
    if (propertyKey === undefined) {
      throw new LockConfigError(`${describeMethod(target, propertyKey)}: @CurrentLock() is for parameters of methods.`);
    }
    // Not among Nest's route arguments: those would make Nest resolve the parameter, and pipes transform it.
    Reflect.defineMetadata(CURRENT_LOCK, [index, ...currentLockIndexes(target, propertyKey)], target, propertyKey);
  };
}

/** The parameters of a method marked with `@CurrentLock()`, by index; those of an overridden method do not count. */
export function currentLockIndexes(target: object, propertyKey: string | symbol): readonly number[] {
  return (Reflect.getOwnMetadata(CURRENT_LOCK, target, propertyKey) as readonly number[] | undefined) ?? [];
}
