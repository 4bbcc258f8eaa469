import type { CheckLevel, RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { resolveChecks } from '../options/resolve-options.js';

/**
 * Returns the options of a module with the defaults of tests: `lockOrder` is `error`.
 *
 * @throws LockConfigError if `checks` is not allowed.
 */
export function forTests<T extends TestDefaults>({ lockOrder, ...options }: T): Omit<T, 'lockOrder'> {
  const checks = resolveChecks(options.checks, 'error');
  return { ...options, checks: { ...checks, lockOrder: lockOrder ?? checks.lockOrder } };
}

type TestDefaults = RedisLockModuleOptions & { readonly lockOrder?: CheckLevel | undefined };
