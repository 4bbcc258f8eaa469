import { checkValue, type OptionRule } from '../core/checks/check-options.js';
import { isLockService, type LockService } from '../lock.service.js';
import { instanceName } from '../options/instance-name.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import { serviceProperty } from './bound-service.js';

const instanceRule: OptionRule = {
  allowed: 'an object that can be extended',
  fits: (value) => typeof value === 'object' && value !== null && Object.isExtensible(value),
};
const locksRule: OptionRule = {
  allowed: 'a LockService, as Nest injects it or createTestLocks() returns it',
  fits: isLockService,
};

/**
 * Gives a lock service to an instance, so that its `@Locked` methods can be called. Returns the instance.
 * Instances that Nest makes from a class have the service already, but not those of `useFactory` and `useValue`.
 *
 * ```ts
 * const goods = bindLocks(new GoodsService(repository), locks);
 * ```
 *
 * @param instance an instance that Nest did not make from a class.
 * @param locks the lock service.
 * @param name the module instance that the methods name in `@Locked(…, { name })`. Default: `default`.
 * @throws LockConfigError if an argument has the wrong type.
 *
 * @publicApi
 */
export function bindLocks<T extends object>(instance: T, locks: LockService, name: string = DEFAULT_INSTANCE): T {
  return bindLocksAt('bindLocks()', instance, locks, name);
}

/** Does what {@link bindLocks} does. `place` is the function that its errors name. */
export function bindLocksAt<T extends object>(place: string, instance: T, locks: LockService, name: string): T {
  checkValue(place, 'the instance', instance, instanceRule);
  checkValue(place, 'the lock service', locks, locksRule);
  checkValue(place, 'name', name, instanceName);
  Object.defineProperty(instance, serviceProperty(name), { value: locks, configurable: true });
  return instance;
}
