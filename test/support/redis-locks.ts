import { Logger } from '@nestjs/common';
import type { LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { LockRuntime, type RuntimeInternals } from '../../lib/lock-runtime.js';
import { loggerOf } from '../../lib/nest/logger.js';
import { eventually } from './async.js';
import type { ServerManualClock } from './server-clock/server-manual-clock.js';
import { uniquePrefix } from './shared-redis.js';

// Kept here for the specs that still import it from this file.
export { eventually } from './async.js';

/** The options of a module instance, and what a test replaces in it. */
export type InstanceOptions = RedisLockModuleOptions & Pick<RuntimeInternals, 'passing' | 'requestTimeoutMs'>;

/** Starts lock services on real Redis as the module does, and records what they log. */
export class RedisLocks {
  readonly prefix = uniquePrefix();
  readonly warnings: string[] = [];
  readonly errors: string[] = [];
  /** The lines of information. */
  readonly infos: string[] = [];
  private readonly running: LockRuntime[] = [];

  /** @param clock of the instances, which the server follows. Default: the system's clock. */
  constructor(private readonly clock?: ServerManualClock) {
    Logger.overrideLogger({
      // Each start logs one line, which says where the locks are.
      log: (message: string) => message.startsWith('Locks are in ') || this.infos.push(message),
      error: (message: string) => this.errors.push(message),
      warn: (message: string) => this.warnings.push(message),
    });
  }

  /**
   * Starts one more module instance with the prefix of this test. A caller waits for others up to 100 s. It waits
   * for Redis without a limit, so that a busy machine is not an outage. A request has 5 s. Locks may be taken in any
   * order.
   */
  start({ passing, requestTimeoutMs = 5_000, ...options }: InstanceOptions): LockService {
    const patience = { waitMs: 100_000, unavailableAfterMs: Infinity };
    const given = { prefix: this.prefix, shutdownGraceMs: 0, ...patience, ...options };
    const runtime = LockRuntime.start(given, undefined, {
      clock: this.clock,
      passing,
      requestTimeoutMs,
      logger: loggerOf(),
    });
    runtime.connect();
    this.running.push(runtime);
    return runtime.service;
  }

  /** Waits for the preflight of all instances. Rejects with its findings if they are an error. */
  async preflight(): Promise<void> {
    await Promise.all(this.running.map((runtime) => runtime.preflight()));
  }

  keyOf(family: string, id: string): string {
    return `{${this.prefix}${family}}:${id}`;
  }

  async close(): Promise<void> {
    const closing = Promise.all(this.running.map((runtime) => runtime.close()));
    await (this.clock?.until(closing) ?? closing);
    Logger.overrideLogger(new Logger());
  }
}

/** Extends the lease of a lock until it succeeds. */
export function renewed(lock: { extend(): Promise<void> }): Promise<void> {
  return eventually('the lock is renewed', () =>
    lock.extend().then(
      () => true,
      () => false,
    ),
  );
}
