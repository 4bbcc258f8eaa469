import { Inject, type InjectionToken } from '@nestjs/common';
import { LockService } from '../lock.service.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';

/**
 * The injection token of a named instance's {@link LockService}; the class itself for the one without a name.
 *
 * @publicApi
 */
export function getLockServiceToken(
  name: string = DEFAULT_INSTANCE,
): InjectionToken<LockService> & (string | typeof LockService) {
  return name === DEFAULT_INSTANCE ? LockService : `nestjs-redis-lock:LockService:${name}`;
}

/**
 * Injects the {@link LockService} of the module instance with that name.
 *
 * @publicApi
 */
export function InjectLockService(name: string = DEFAULT_INSTANCE): PropertyDecorator & ParameterDecorator {
  return Inject(getLockServiceToken(name));
}
