import type { Clock } from '../core/time/clock.js';
import type { LockService } from '../lock.service.js';
import type { RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { ManualClock } from './manual-clock.js';

/** A lock service that a test has started. */
interface TestService {
  readonly service: WeakRef<LockService>;
  readonly clock: Clock;
}

/** Returns the options with the defaults of tests. */
export function forTests<T extends RedisLockModuleOptions>(options: T): T {
  return { ...options, lockOrder: options.lockOrder ?? 'error' };
}

const started = new Set<TestService>();

/** Lets {@link testServices} find a service as long as the test uses it. */
export function addTestService(service: LockService, clock: Clock): void {
  for (const known of started) if (known.service.deref() === undefined) started.delete(known);
  started.add({ service: new WeakRef(service), clock });
}

/** Returns the lock services that tests have started in this process. */
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
