import type { Channel } from 'node:diagnostics_channel';
import { diag, metrics, type MeterProvider, trace, type Tracer, type TracerProvider } from '@opentelemetry/api';
import { checkOptions, oneOf } from '../common/check-options.js';
import { type LockCallContext, lockTracing, workChannel, type WorkMessage } from '../events/tracing.js';
import { LockCollector, type MetricEnd } from '../events/lock-collector.js';
import { VERSION } from '../common/version.js';
import { LockMetrics } from './lock-metrics.js';
import { LockSpans } from './lock-spans.js';

/** The name of the tracer and the meter. */
const NAME = 'nestjs-redis-lock';

/**
 * The options of {@link RedisLockInstrumentation}.
 *
 * @publicApi
 */
export interface RedisLockInstrumentationConfig {
  /**
   * Whether the instrumentation starts when it is created. `false`: `enable()` or `registerInstrumentations()` starts
   * it.
   *
   * @default true
   */
  readonly enabled?: boolean | undefined;
}

type Listener = (message: unknown) => void;
type Subscription = readonly [channel: Pick<Channel, 'subscribe' | 'unsubscribe'>, on: Listener];

/**
 * Spans and metrics of all locks of the process, for OpenTelemetry. It is an `Instrumentation`:
 *
 * ```ts
 * registerInstrumentations({ instrumentations: [new RedisLockInstrumentation()] });
 * ```
 *
 * It also works by itself, with the global providers or those that it is given. It patches no module, so it may be
 * created before or after the application.
 *
 * The spans are `acquire goods` and `hold goods`, of kind `INTERNAL`. Work of `using` and `@Locked` runs inside the
 * span of its hold. The metrics never have the resource. Nested holds have no spans and no metrics of their own.
 *
 * An error of a provider is reported to OpenTelemetry's `diag` and never reaches the caller of a lock.
 *
 * @throws {LockConfigError} if an option is not allowed.
 *
 * @publicApi
 */
export class RedisLockInstrumentation {
  readonly instrumentationName = NAME;
  readonly instrumentationVersion = VERSION;
  private config = { enabled: true };
  private tracerProvider: TracerProvider | undefined;
  private tracer: Tracer | undefined;
  private meterProvider: MeterProvider | undefined;
  /** The instruments, and the provider that they come from. */
  private metered: { readonly by: MeterProvider; readonly metrics: LockMetrics } | undefined;
  private readonly spans = new LockSpans(
    () => (this.tracer ??= (this.tracerProvider ?? trace).getTracer(NAME, VERSION)),
  );
  private readonly collector = new LockCollector({
    acquired: reporting((end: MetricEnd) => this.instruments().acquired(end)),
    held: reporting((end: MetricEnd) => this.instruments().held(end)),
  });
  private readonly subscriptions: readonly Subscription[];
  private isEnabled = false;

  constructor(config: RedisLockInstrumentationConfig = {}) {
    const { acquire, hold } = lockTracing;
    this.subscriptions = [
      [acquire.start, reporting((call: LockCallContext) => this.onRequested(call))],
      [acquire.asyncEnd, reporting((call: LockCallContext) => this.spans.onAcquired(call))],
      [hold.start, reporting((call: LockCallContext) => this.spans.onHeld(call))],
      [hold.asyncEnd, reporting((call: LockCallContext) => this.spans.onEnded(call))],
      [workChannel, reporting((message: WorkMessage) => this.spans.onWork(message))],
    ];
    this.setConfig(config);
    if (this.config.enabled) this.enable();
  }

  /** Starts making spans and metrics. Does nothing if it has already started. */
  enable(): void {
    if (this.isEnabled) return;
    this.isEnabled = true;
    for (const [channel, on] of this.subscriptions) channel.subscribe(on);
    this.collector.start();
    this.countHeldLocks();
  }

  /**
   * Disables the instrumentation. An open span ends with its hold only if the instrumentation is enabled again by then.
   */
  disable(): void {
    if (!this.isEnabled) return;
    this.isEnabled = false;
    for (const [channel, on] of this.subscriptions) channel.unsubscribe(on);
    this.collector.stop();
    const { metered } = this;
    this.metered = undefined;
    reporting(() => metered?.metrics.stop())(undefined);
  }

  /** Sets the provider of the tracer. Default: the global one. */
  setTracerProvider(provider: TracerProvider): void {
    this.tracerProvider = provider;
    this.tracer = undefined;
  }

  /** Sets the provider of the meter. Default: the global one. */
  setMeterProvider(provider: MeterProvider): void {
    // `registerInstrumentations` passes the global one, even before the application has set it.
    this.meterProvider = provider === metrics.getMeterProvider() ? undefined : provider;
    this.countHeldLocks();
  }

  /** Does nothing, because the library emits no log records. `registerInstrumentations` calls it. */
  setLoggerProvider(_provider: unknown): void {}

  /** Sets the options. `enabled` has no effect afterwards. See {@link enable}. */
  setConfig(config: RedisLockInstrumentationConfig): void {
    const { enabled = true } = checkOptions('RedisLockInstrumentation', config, { enabled: oneOf(true, false) });
    this.config = { enabled };
  }

  /** Returns the options. */
  getConfig(): { enabled: boolean } {
    return this.config;
  }

  /** Makes the instruments without waiting for the first lock, so that locks that are already held are counted. */
  private countHeldLocks(): void {
    if (this.isEnabled) reporting(() => void this.instruments())(undefined);
  }

  private onRequested(call: LockCallContext): void {
    this.spans.onRequested(call);
    this.instruments();
  }

  /** Makes the instruments at the first lock, and again if the global provider was set later. */
  private instruments(): LockMetrics {
    const by = this.meterProvider ?? metrics.getMeterProvider();
    if (this.metered?.by === by) return this.metered.metrics;
    this.metered?.metrics.stop();
    this.metered = { by, metrics: new LockMetrics(by.getMeter(NAME, VERSION), this.collector) };
    return this.metered.metrics;
  }
}

/** Returns a function that never throws, because Node ends the process if a subscriber of a channel throws. */
function reporting(on: (message: never) => void): Listener {
  return (message) => {
    try {
      on(message as never);
    } catch (error) {
      diag.error(`${NAME}: a lock was not reported`, error);
    }
  };
}
