import type { DynamicModule } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';
import type { ManualClock } from 'nestjs-redis-lock/testing';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { loggerOf } from '../../lib/nest/logger.js';
import { LOCK_RUNTIME, type RedisLockModuleExtras } from '../../lib/nest/module-definition.js';
import type { InstanceOptions } from './redis-locks.js';

/** Returns the module as an application imports it, with what a test replaces in the module instance. */
export function lockModule(
  given: InstanceOptions & RedisLockModuleExtras & { readonly clock?: ManualClock | undefined },
): DynamicModule {
  const { clock, passing, requestTimeoutMs, ...options } = given;
  const definition = RedisLockModule.forRoot(options);
  const { name, isGlobal: _isGlobal, ...own } = options;
  const start = (): LockRuntime =>
    LockRuntime.start(own, name, { clock, passing, requestTimeoutMs, logger: loggerOf(name) });
  return {
    ...definition,
    providers: [...(definition.providers ?? []), { provide: LOCK_RUNTIME, useFactory: start }],
  };
}
