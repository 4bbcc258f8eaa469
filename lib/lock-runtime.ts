import { isNativeError } from 'node:util/types';
import { type Clock, SystemClock } from './clock/clock.js';
import { LockConfigError, LockUnavailableError, messageOf } from './common/errors.js';
import { offerState } from './events/instance-states.js';
import type { lockChannels } from './events/diagnostics.js';
import { safely, type Warn } from './events/warnings.js';
import { LockEngine } from './engine/lock-engine.js';
import { describeUnsupported } from './engine/error-texts.js';
import { passingLimitsOf } from './engine/options.js';
import type { LockStore } from './contract/store.js';
import { createKeySelectorFactory } from './keys/key-selector.js';
import { createKeyFactory } from './keys/resource-key.js';
import { LockService } from './lock.service.js';
import { type OpenedRedis, openRedis } from './redis/open-redis.js';
import { Preflight } from './redis/preflight.js';
import { placeOf } from './redis/server-address.js';
import { DEFAULT_INSTANCE, type HttpOptions, type RedisLockModuleOptions } from './options/redis-lock.options.js';
import { checkAt, REQUEST_TIMEOUT_MS } from './options/option-table.js';
import { lockDefaultsOf, type ResolvedOptions, resolveOptions } from './options/resolve-options.js';
import { token } from './stores/token/token.js';

/**
 * What gets the log lines of locks: Nest's `Logger`, `console`, or another object with these three methods.
 *
 * @publicApi
 */
export interface LockLogger {
  /** Called with a line of information, such as where the locks are. */
  log(message: string): void;
  /** Called with a line that an operator should read, such as an outage of Redis or a lost lock. */
  warn(message: string): void;
  /** Called with a mistake, and with the stack of the error that an application's callback threw, if there is one. */
  error(message: string, stack?: string): void;
}

/** What a module instance consists of. */
interface RuntimeParts {
  readonly instance: string;
  readonly options: ResolvedOptions;
  readonly service: LockService;
  readonly engine: LockEngine;
  readonly opened: OpenedStore;
  readonly checks: Preflight | undefined;
  readonly warn: Warn;
  /** Logs a line at the level `log`. Never throws. */
  readonly info: Warn;
  /** Logs an error. Never throws. */
  readonly error: Warn;
}

/** What a module instance uses besides its options. Tests replace all of it. */
export interface RuntimeInternals {
  /** What gets the log lines. Default: the console. */
  readonly logger?: LockLogger | undefined;
  /** Default: the system's clock. */
  readonly clock?: Clock | undefined;
  /** Where events are published. Default: `lockChannels`. */
  readonly channels?: typeof lockChannels | undefined;
  /** The time limit of one request to the store, in milliseconds. Default: 1,000. */
  readonly requestTimeoutMs?: number | undefined;
  /** Default: those of the option `fairness`. */
  readonly passing?: { readonly maxLocalPasses?: number; readonly maxLocalHoldMs?: number } | undefined;
}

/** A running module instance: its service, its engine, and the store and connections that it opened. */
export class LockRuntime {
  private stopOffering: (() => void) | undefined;
  private isClosing = false;

  private constructor(private readonly parts: RuntimeParts) {}

  /**
   * Creates the store and the engine, without connecting.
   *
   * @param internals the logger, and what tests replace.
   * @throws LockConfigError if an option is not allowed, either by itself or with the store.
   */
  static start(given: RedisLockModuleOptions, instance: string = DEFAULT_INSTANCE, internals: RuntimeInternals = {}) {
    const { logger = console, clock = new SystemClock(), channels, passing } = internals;
    const { requestTimeoutMs = REQUEST_TIMEOUT_MS } = internals;
    const options = resolveOptions(given);
    const defaults = lockDefaultsOf(options);
    const opened = openStore(options, clock, requestTimeoutMs);
    const { store } = opened;
    checkStore(store, options);
    const warn = safely((line) => logger.warn(line));
    const info = safely((line) => logger.log(line));
    const error = safely((line) => logger.error(line));
    const engine = new LockEngine({
      store,
      clock,
      instance,
      place: opened.place,
      channels,
      identity: options.identity,
      requestTimeoutMs,
      passing: { ...passingLimitsOf(options.fairness), ...passing },
      lockDelayMs: options.lockDelayMs,
      checkLease: (method, leaseOptions) => checkAt(method, leaseOptions),
      warn,
      info,
      onCallbackError: (message, cause) => logger.error(message, ...stackOf(cause)),
    });
    const selectKeys = createKeySelectorFactory(options);
    const service = new LockService(engine, createKeyFactory(options), defaults, selectKeys);
    const checks = preflightOf(opened, options, { clock, requestTimeoutMs }, options.checks === 'error' ? error : warn);
    return new LockRuntime({ instance, options, service, engine, opened, checks, warn, info, error });
  }

  get service(): LockService {
    return this.parts.service;
  }

  /** What to do with what is found at startup. */
  get checkLevel(): ResolvedOptions['checks'] {
    return this.parts.options.checks;
  }

  /** Logs a warning. Never throws. */
  warn(line: string): void {
    this.parts.warn(line);
  }

  /** What callers get for lock errors, without defaults. */
  get http(): HttpOptions | undefined {
    return this.parts.options.http;
  }

  /** Starts to connect but does not wait, because an application starts without Redis. Logs where the locks are. */
  connect(): void {
    const { instance, engine, opened, checks, info } = this.parts;
    info(this.describePlace());
    this.stopOffering ??= offerState(() => ({ instance, ...engine.calls(), servers: engine.servers() }));
    opened.connect();
    checks?.start();
  }

  /**
   * Waits for the preflight if findings are errors. Closes everything if there is a finding.
   *
   * @throws LockConfigError with the findings. LockUnavailableError if Redis cannot be reached.
   */
  async preflight(): Promise<void> {
    try {
      await this.check();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** Logs what {@link preflight} would throw, and closes nothing. */
  reportChecks(): void {
    const { error } = this.parts;
    this.check().catch((finding: unknown) => {
      // Closed connections cannot be reached.
      if (!this.isClosing) error(messageOf(finding));
    });
  }

  private async check(): Promise<void> {
    const { checks } = this.parts;
    if (checks === undefined || this.checkLevel !== 'error') return;
    await checks.atStart();
    await this.demandRedis();
  }

  /** @throws LockUnavailableError if locks cannot be acquired now. */
  private async demandRedis(): Promise<void> {
    const { store, place } = this.parts.opened;
    const { isUp, servers, degraded } = await store.ping();
    if (isUp) return;
    const down = servers.filter((server) => !server.isUp);
    const reasons = down.length === 1 ? [down[0].error] : down.map(({ server, error }) => `${server}: ${error}`);
    const known = [...reasons, degraded].filter((reason) => reason !== undefined);
    const why = known.map((reason) => reason.replace(/\.$/, '')).join('; ');
    throw new LockUnavailableError(`Redis cannot be reached at ${place}, and checks is 'error': ${why}.`);
  }

  private describePlace(): string {
    const { opened, options } = this.parts;
    const { place, endpoints } = opened;
    if (place === undefined) return 'Locks are in the memory of this process, so other processes do not see them.';
    if (options.key !== undefined) return `Locks are in ${place}.`;
    const prefix = `${endpoints[0].client.keyPrefix}${options.prefix}`;
    return `Locks are in ${place}, ${prefix === '' ? 'keys have no prefix' : `keys begin with ${prefix}`}.`;
  }

  /** How long a lock stays held after the process was killed, in milliseconds. 0 for locks in memory. */
  get leaseAfterKillMs(): number {
    const { opened, options } = this.parts;
    return opened.endpoints.length === 0 ? 0 : options.ttlMs;
  }

  /** Closes all leaderships. Waits for nothing. */
  beginShutdown(): void {
    this.parts.engine.beginShutdown();
  }

  /**
   * Waits for the current calls and holds, at most `shutdownGraceMs`. The holds that are left then are lost. Other
   * calls are still served.
   */
  settle(): Promise<void> {
    const { engine, options } = this.parts;
    return engine.settle(options.shutdownGraceMs);
  }

  /**
   * Closes everything once nobody has used it for a second. Other packages, such as those of queues, may stop after
   * this module and call locked methods until then. Does not keep the process alive.
   */
  async retire(): Promise<void> {
    await this.settle();
    // Metrics have shown which locks the shutdown waits for.
    this.stopOffering?.();
    const { opened, engine } = this.parts;
    for (const endpoint of opened.endpoints) endpoint.unref();
    engine.whenIdle(IDLE_MS, () => void this.close().catch(() => undefined));
  }

  /**
   * Waits as {@link settle} does, and closes everything then. Nothing but its callers uses the instance, so it does not
   * wait until it is idle.
   */
  async end(): Promise<void> {
    await this.settle();
    await this.close();
  }

  /**
   * Refuses new calls, waits for running holds until `shutdownGraceMs` has elapsed, releases the rest, and closes what
   * `start` opened.
   */
  async close(): Promise<void> {
    const { engine, options, opened, checks } = this.parts;
    this.isClosing = true;
    checks?.stop();
    try {
      await engine.close(options.shutdownGraceMs);
    } finally {
      // Later, so that metrics show which locks a shutdown waits for.
      this.stopOffering?.();
      await opened.close();
    }
  }
}

/** Returns the stack of an error, if it has one. */
function stackOf(error: unknown): [stack?: string] {
  return isNativeError(error) && error.stack !== undefined ? [error.stack] : [];
}

/** How long nobody must have used a module instance after a shutdown before it is closed, in milliseconds. */
const IDLE_MS = 1_000;

/** A store, with the connections that were opened for it. */
interface OpenedStore {
  readonly store: LockStore;
  /** The clients that the store uses. */
  readonly endpoints: readonly OpenedRedis[];
  /** Where they connect to, without passwords. Undefined if there are none. */
  readonly place: string | undefined;
  connect(): void;
  close(): Promise<void>;
}

function openStore(
  { store, redis, prefix, replicas }: ResolvedOptions,
  clock: Clock,
  requestTimeoutMs: number,
): OpenedStore {
  const opened: OpenedRedis[] = [];
  const open = (where: ResolvedOptions['redis']): OpenedRedis => {
    const endpoint = openRedis(where, clock);
    opened.push(endpoint);
    return endpoint;
  };
  let main: OpenedRedis | undefined;
  const openMain = (): OpenedRedis => (main ??= open(redis));
  const created = (store ?? token())({
    clock,
    requestTimeoutMs,
    prefix,
    redis: () => openMain().client,
    replicas,
    open: (where) => open(where as ResolvedOptions['redis']).client,
  });
  // `store: memory` in place of `store: memory()` returns a function.
  if (typeof created === 'function') {
    throw new LockConfigError('store: it is a function that makes a store; call it: `store: memory()`.');
  }
  const connect = (): void => {
    for (const endpoint of opened) endpoint.connect();
  };
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((endpoint) => endpoint.close()));
  };
  const place = opened.length === 0 ? undefined : opened.map(({ client }) => placeOf(client)).join(', ');
  return { store: created, endpoints: opened, place, connect, close };
}

function preflightOf(
  { endpoints }: OpenedStore,
  { checks }: ResolvedOptions,
  times: { readonly clock: Clock; readonly requestTimeoutMs: number },
  report: Warn,
): Preflight | undefined {
  if (checks === 'off' || endpoints.length === 0) return undefined;
  const clients = endpoints.map(({ client }) => client);
  return new Preflight({ clients, ...times, fails: checks === 'error', report });
}

/** @throws LockConfigError if the store cannot do what the options say. */
function checkStore(store: LockStore, options: ResolvedOptions): void {
  const { capabilities } = store;
  if (options.replicas !== undefined && !capabilities.replicas) {
    throw new LockConfigError('replicas: this store does not wait for them; use the store token().');
  }
  checkLease(store, options);
}

/** @throws LockConfigError if the store does not support the lease. */
function checkLease(store: LockStore, { ttlMs }: ResolvedOptions) {
  const { resolutionMs } = store.capabilities;
  const refusal = describeUnsupported(store.capabilities, { mode: 'exclusive', leaseMs: ttlMs });
  if (refusal !== undefined) throw new LockConfigError(`${refusal}.`);
  if (ttlMs >= resolutionMs && ttlMs % resolutionMs === 0) return;
  const allowed = `a multiple of ${resolutionMs}, the resolution of the store`;
  throw new LockConfigError(`ttlMs is ${ttlMs}; expected ${allowed}.`);
}
