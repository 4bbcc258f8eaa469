import { Inject } from '@nestjs/common';
import { checkValue, type OptionRule } from '../common/check-options.js';
import { LockConfigError } from '../common/errors.js';
import { kindOf } from '../common/format-value.js';
import { isLockService, type LockService } from '../lock.service.js';
import { DEFAULT_INSTANCE, instanceName } from '../options/redis-lock.options.js';
import type { LockedMethod, ServiceBinding } from './decorated-method.js';
import { describeService, getLockServiceToken } from './service-token.js';

/** Returns the property that holds the lock service of a module instance. All decorated methods of a class share it. */
function serviceProperty(name: string): symbol {
  return Symbol.for(describeService(name));
}

/**
 * Makes Nest inject the lock service of a module instance into the class of a decorated method. Returns where the
 * service is then found.
 */
export function injectServiceInto(target: object, name: string): ServiceBinding {
  const [token, service] = [getLockServiceToken(name), serviceProperty(name)];
  Inject(token)(target, service);
  return { token, service };
}

const instanceRule: OptionRule = {
  allowed: 'an object that can be extended',
  fits: (value) => typeof value === 'object' && value !== null && Object.isExtensible(value),
};
const locksRule: OptionRule = {
  allowed: 'a LockService, as Nest injects it or createTestLocks() returns it',
  fits: isLockService,
};

/**
 * Gives a lock service to an instance that Nest did not make from its class, so that its `@Locked` methods can be
 * called: one of `useFactory` or `useValue`, or one made with `new`. Changes the instance and returns it.
 *
 * ```ts
 * const goods = bindLocks(new GoodsService(repository), locks);
 * ```
 *
 * @param instance an instance with `@Locked` methods.
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
  Object.defineProperty(instance, serviceProperty(name), { value: locks, configurable: true, writable: true });
  return instance;
}

const NO_SERVICE =
  'has no lock service. Nest gives one only to instances that it makes from a class. Pass the instance of a factory ' +
  '(useFactory) or a value (useValue), or one made with `new`, to bindLocks(instance, locks). The same applies in ' +
  'a lazily loaded module. In a unit test, use withLocks() of nestjs-redis-lock/testing. Call a method only on its ' +
  'instance, once the application has started.';

/**
 * Returns the lock service of the instance that a `@Locked` method was called on.
 *
 * @throws LockConfigError if the instance has none, or if a test has replaced it with something else.
 */
export function serviceOf(method: LockedMethod, instance: unknown): LockService {
  const found = (instance as Record<symbol, unknown> | undefined)?.[method.service];
  if (isLockService(found)) return found;
  if (found === undefined) throw new LockConfigError(`${method.name} is @Locked, but \`this\` ${NO_SERVICE}`);
  throw new LockConfigError(
    `${method.name} is @Locked, but LockService was replaced by something that is not a lock service: ` +
      `${kindOf(found)}. Replace it with createTestLocks(), or use withMemoryLocks(Test.createTestingModule(…)), ` +
      `both of nestjs-redis-lock/testing. They lock in memory.`,
  );
}
