import { Inject, type InjectionToken } from '@nestjs/common';
import { checkValue } from '../common/check-options.js';
import { LockService } from '../lock.service.js';
import { DEFAULT_INSTANCE, instanceName } from '../options/redis-lock.options.js';

/** Returns what Nest prints in its own error if no module provides the lock service of this name. */
export function describeService(name: string): string {
  const [suffix, options] = name === DEFAULT_INSTANCE ? ['', ''] : [`:${name}`, `{ name: '${name}' }`];
  const inApplication = `import RedisLockModule.forRoot(${options}) in AppModule`;
  const inTest = `RedisLockTestingModule.forRoot(${options}) in a unit test`;
  return `nestjs-redis-lock:LockService${suffix}, ${inApplication}, or ${inTest}`;
}

/**
 * Returns the injection token of a module instance's {@link LockService}, to inject or to override it.
 *
 * @param name the `name` of the module instance. Without it, the token is the class.
 * @throws {LockConfigError} if the name is not a string, or is empty.
 *
 * @publicApi
 */
export function getLockServiceToken(
  name: string = DEFAULT_INSTANCE,
): InjectionToken<LockService> & (string | typeof LockService) {
  checkValue('getLockServiceToken()', 'name', name, instanceName);
  return name === DEFAULT_INSTANCE ? LockService : describeService(name);
}

/**
 * Injects the {@link LockService} of a module instance.
 *
 * @param name the `name` of the module instance.
 *
 * @publicApi
 */
export function InjectLockService(name: string = DEFAULT_INSTANCE): PropertyDecorator & ParameterDecorator {
  return Inject(getLockServiceToken(name));
}
