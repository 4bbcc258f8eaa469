import { Inject, Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import { checkOptions, milliseconds, type OptionRules, withoutUndefined } from '../common/check-options.js';
import { LockConfigError } from '../common/errors.js';
import type { StorePing } from '../contract/store-ping.js';
import { withTimeout } from '../clock/clock.js';
import { getLockServiceToken } from '../nest/service-token.js';
import type { LockService } from '../lock.service.js';
import { DEFAULT_INSTANCE, instanceName } from '../options/redis-lock.options.js';

/**
 * The options of {@link RedisLockHealthIndicator.isHealthy}.
 *
 * @publicApi
 */
export interface HealthOptions {
  /** The `name` of the module instance. Default: the instance without a name. */
  readonly name?: string | undefined;
  /** How long the check may take, in milliseconds. Default: 1000. */
  readonly timeout?: number | undefined;
}

const RULES: OptionRules<HealthOptions> = { name: instanceName, timeout: milliseconds(1, 2 ** 31 - 1) };

/** The part of Terminus 11 and 12 that is used. `degraded` is there from 12 on. */
interface HealthSession<Key extends string> {
  up(data: object): HealthIndicatorResult<Key>;
  down(data: object): HealthIndicatorResult<Key>;
  degraded?(data: object): HealthIndicatorResult<Key>;
}

/**
 * Checks for Terminus whether locks can be acquired. Provide it in the module of your health controller, which imports
 * `TerminusModule`:
 *
 * ```ts
 * check = () => this.health.check([() => this.locks.isHealthy('locks')]);
 * ```
 *
 * Use it for readiness, not for liveness. A process that is restarted because Redis is down ends its own work, and the
 * new process has the same Redis.
 *
 * @publicApi
 */
@Injectable()
export class RedisLockHealthIndicator {
  constructor(
    @Inject(HealthIndicatorService) private readonly health: HealthIndicatorService,
    @Inject(ModuleRef) private readonly modules: ModuleRef,
  ) {}

  /**
   * Pings the servers of a module instance. See `LockService.ping()`.
   *
   * - `down`: some locks, or all, cannot be acquired. The server, a majority of a quorum, or a master of a cluster
   *   does not reply.
   *   The status is also `down` during a shutdown. Requests are still served, but no further ones should be sent.
   * - `degraded`: locks can be acquired, but a minority of a quorum is down, or waiting costs more requests. Terminus
   *   11 has no such status, so the status is `up` there.
   * - `up`: all servers reply.
   *
   * The result also has `handoff`, `servers`, and `degraded` with the reason. It contains the servers' addresses.
   *
   * @param key the name of the result.
   * @throws {LockConfigError} if an option is not allowed, or if no module instance has the name. Does not throw if a
   * server is down.
   */
  async isHealthy<const Key extends string>(
    key: Key,
    options: HealthOptions = {},
  ): Promise<HealthIndicatorResult<Key>> {
    const { name = DEFAULT_INSTANCE, timeout } = checkOptions('isHealthy()', options, RULES);
    const locks = this.serviceOf(name);
    const session = this.health.check(key) as unknown as HealthSession<Key>;
    if (locks.isShuttingDown) return session.down({ message: 'the application is shutting down' });
    const ping = await pingWithin(locks, timeout);
    if (typeof ping === 'string') return session.down({ message: ping });
    const { isUp, degraded, handoff, servers } = ping;
    const details = withoutUndefined({ handoff, degraded, servers: servers.map((server) => withoutUndefined(server)) });
    if (!isUp) return session.down(details);
    if (degraded === undefined || session.degraded === undefined) return session.up(details);
    return session.degraded(details);
  }

  private serviceOf(name: string): LockService {
    try {
      return this.modules.get<LockService>(getLockServiceToken(name), { strict: false });
    } catch (cause) {
      const allowed = 'the name of a RedisLockModule of this application';
      throw new LockConfigError(
        `isHealthy(): there is no module instance ${JSON.stringify(name)}; expected ${allowed}.`,
        {
          cause,
        },
      );
    }
  }
}

/** Returns the ping, or why there was none in time. */
function pingWithin(locks: LockService, timeoutMs: number | undefined): Promise<StorePing | string> {
  const ping = locks.ping();
  if (timeoutMs === undefined) return ping;
  return withTimeout<StorePing | string>(locks.engine.clock, timeoutMs, ping, () => `no reply within ${timeoutMs} ms`);
}
