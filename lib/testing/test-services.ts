import type { Clock } from '../core/time/clock.js';
import type { LockService } from '../lock.service.js';
import type { CheckLevel, RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { resolveChecks } from '../options/resolve-options.js';
import { ManualClock } from './manual-clock.js';

/** A lock service that a test started. */
interface TestService {
  readonly service: WeakRef<LockService>;
  readonly clock: Clock;
}

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

const started = new Set<TestService>();

/** Lets {@link testServices} find a service as long as the test uses it. */
export function addTestService(service: LockService, clock: Clock): void {
  for (const known of started) if (known.service.deref() === undefined) started.delete(known);
  started.add({ service: new WeakRef(service), clock });
}

/** Returns the lock services that tests started in this process. */
export function testServices(): readonly LockService[] {
  return Array.from(started, ({ service }) => service.deref()).filter((service) => service !== undefined);
}

/** Returns the manual clocks of the given services. */
export function manualClocksOf(services: readonly LockService[]): readonly ManualClock[] {
  const clocks = new Set<ManualClock>();
  for (const { service, clock } of started) {
    const found = service.deref();
    if (found !== undefined && services.includes(found) && clock instanceof ManualClock) clocks.add(clock);
  }
  return [...clocks];
}
