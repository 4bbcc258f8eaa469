import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Controller, Get, Header, type INestApplication, Param } from '@nestjs/common';
import {
  context,
  type MeterProvider as MeterProviderApi,
  metrics,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type TracerProvider,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  DataPointType,
  type HistogramMetricData,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, LockService } from 'nestjs-redis-lock';
import { RedisLockInstrumentation } from 'nestjs-redis-lock/opentelemetry';
import { closeApps, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';

/** What `registerInstrumentations` uses of an instrumentation. */
interface Instrumentation {
  enable(): void;
  setTracerProvider(provider: TracerProvider): void;
  setMeterProvider(provider: MeterProviderApi): void;
  setLoggerProvider?(provider: object): void;
  getConfig(): { enabled?: boolean };
}

/** Does what `registerInstrumentations` does with each instrumentation, in all its versions. */
function registerInstrumentation(one: Instrumentation, tracers: TracerProvider, meters: MeterProviderApi): void {
  one.setTracerProvider(tracers);
  one.setMeterProvider(meters);
  one.setLoggerProvider?.({});
  if (!one.getConfig().enabled) one.enable();
}

const tracer = trace.getTracer('the application');
const packageVersion = (): string => {
  const manifest = readFileSync(join(__dirname, '../../package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
};
const RESOURCE = 'redis_lock.resource';
const seriesOf = (family: string) => {
  return { 'redis_lock.name': 'default', 'redis_lock.family': family, 'redis_lock.mode': 'exclusive' };
};

@Controller()
class GoodsController {
  constructor(
    private readonly locks: LockService,
    private readonly room: Room,
  ) {}

  @Get('buy/:id')
  @Header('content-type', 'text/plain')
  @Locked('goods:<id>')
  async buy(@Param('id') id: string): Promise<string> {
    tracer.startSpan('handler').end();
    await this.locks.using(`goods:${id}`, () => tracer.startSpan('nested work').end());
    return `bought ${id}`;
  }

  @Get('take/:id')
  async take(@Param('id') id: string): Promise<void> {
    await this.locks.using(`stock:${id}`, { label: `request ${id}` }, () => {
      tracer.startSpan('take from stock').end();
      return this.room.stay(id);
    });
  }
}

/** Starts a span around each request, as an instrumentation of HTTP does. */
function traceRequests(app: INestApplication): void {
  app.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
    const span = tracer.startSpan(`GET ${request.url}`, { kind: SpanKind.SERVER }, ROOT_CONTEXT);
    response.on('finish', () => span.end());
    context.with(trace.setSpan(ROOT_CONTEXT, span), next);
  });
}

describe('the instrumentation of OpenTelemetry', () => {
  const exporter = new InMemorySpanExporter();
  let measured: InMemoryMetricExporter;
  let meters: MeterProvider;
  let instrumentation: RedisLockInstrumentation;
  let app: TestApp;

  const spanOf = (name: string): ReadableSpan => {
    const found = exporter.getFinishedSpans().find((span) => span.name === name);
    if (found === undefined) throw new Error(`no span ${name}: ${names().join(', ')}`);
    return found;
  };
  const names = (): string[] => exporter.getFinishedSpans().map(({ name }) => name);
  const parentOf = (name: string): string | undefined => {
    const id = spanOf(name).parentSpanContext?.spanId;
    return exporter.getFinishedSpans().find((span) => span.spanContext().spanId === id)?.name;
  };
  const metric = async (name: string): Promise<MetricData | undefined> => {
    measured.reset();
    await meters.forceFlush();
    const all = measured.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
    return all.find(({ descriptor }) => descriptor.name === name);
  };

  beforeEach(async () => {
    exporter.reset();
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    meters = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter: measured })] });
    context.setGlobalContextManager(new AsyncLocalStorageContextManager());
    trace.setGlobalTracerProvider(provider);
    metrics.setGlobalMeterProvider(meters);
    instrumentation = new RedisLockInstrumentation();
    app = await startApp({ controllers: [GoodsController], prepare: traceRequests });
  });

  afterEach(async () => {
    instrumentation.disable();
    await closeApps();
    await meters.shutdown();
    for (const api of [context, trace, metrics]) api.disable();
  });

  it('makes spans of a handler: children of the request, with the work inside the hold', async () => {
    expect((await app.call('/buy/300')).text).toBe('bought 300');
    await until('GET /buy/300');
    expect(parentOf('acquire goods')).toBe('GET /buy/300');
    expect(parentOf('hold goods')).toBe('GET /buy/300');
    expect(parentOf('handler')).toBe('hold goods');
    expect(parentOf('nested work')).toBe('hold goods');
    // The nested hold has no spans.
    expect(names().filter((name) => name.endsWith('goods'))).toHaveLength(2);
    const { attributes, kind, status, instrumentationScope } = spanOf('hold goods');
    expect(attributes).toEqual({
      ...seriesOf('goods'),
      [RESOURCE]: 'goods:300',
      'redis_lock.method': 'GoodsController.buy',
      'redis_lock.fencing_token': expect.any(Number),
      'redis_lock.outcome': 'released',
    });
    expect(spanOf('acquire goods').attributes).toEqual({ ...attributes, 'redis_lock.outcome': 'granted' });
    expect([kind, status]).toEqual([SpanKind.INTERNAL, { code: SpanStatusCode.UNSET }]);
    expect(instrumentationScope).toMatchObject({ name: 'nestjs-redis-lock', version: packageVersion() });
  });

  it('makes spans of each of several locks, with the work inside the first', async () => {
    await app.locks.using(['account:1', 'bill:2'], () => tracer.startSpan('transfer').end());
    const parents = ['hold account', 'hold bill', 'transfer'].map(parentOf);
    expect(parents).toEqual([undefined, undefined, 'hold account']);
  });

  it('keeps two requests apart that hand the lock from one to the other', async () => {
    const first = app.call('/take/1?first');
    const visit = await app.room.next();
    const second = app.call('/take/1?second');
    await app.log.until('requested stock:1', 2);
    expect(await app.locks.tryAcquire('stock:1')).toBeNull();
    const counts = await Promise.all([metric('redis_lock.hold.count'), metric('redis_lock.waiter.count')]);
    const one = { attributes: seriesOf('stock'), value: 1 };
    expect(counts.map((data) => data?.dataPoints)).toMatchObject([[one], [one]]);
    visit.leave();
    (await app.room.next()).leave();
    await Promise.all([first, second]);
    await until('GET /take/1?second');
    const ofStock = exporter.getFinishedSpans().filter(({ name }) => /^take|^hold/.test(name));
    expect(ofStock.map((span) => `${span.name} in ${rootOf(span)?.name}`)).toEqual([
      'take from stock in GET /take/1?first',
      'hold stock in GET /take/1?first',
      'take from stock in GET /take/1?second',
      'hold stock in GET /take/1?second',
    ]);
    expect(spanOf('hold stock').attributes['redis_lock.label']).toBe('request 1');
  });

  it('distinguishes a failure from a lock that is busy for a call that does not wait', async () => {
    const held = await app.locks.acquire('stock:1');
    expect(await app.locks.tryAcquire('stock:1')).toBeNull();
    await expect(app.locks.acquire('page:1', { signal: AbortSignal.abort() })).rejects.toThrow('aborted');
    await expect(app.locks.acquire('stock:1', { waitMs: 5 })).rejects.toThrow('stock:1 is locked');
    await held.release();
    const { UNSET, ERROR } = SpanStatusCode;
    const refused = exporter.getFinishedSpans().filter(({ name }) => name === 'acquire stock');
    expect(refused).toMatchObject([
      { attributes: { 'redis_lock.outcome': 'granted' }, status: { code: UNSET } },
      { attributes: { 'redis_lock.outcome': 'busy' }, status: { code: UNSET } },
      { attributes: { 'redis_lock.outcome': 'timeout', 'error.type': 'LOCK_TIMEOUT' }, status: { code: ERROR } },
    ]);
    expect(refused[1].attributes).not.toHaveProperty(['error.type']);
  });

  it('marks a lost hold as failed', async () => {
    await expect(app.locks.using('goods:1', { maxHoldMs: 20 }, ({ signal }) => once(signal, 'abort'))).rejects.toThrow(
      'lost',
    );
    const { attributes, status } = spanOf('hold goods');
    expect(attributes).toMatchObject({ 'redis_lock.outcome': 'lost', 'error.type': 'LOCK_LOST' });
    expect(status).toEqual({ code: SpanStatusCode.ERROR, message: expect.stringContaining('was lost') });
  });

  it('measures waits and holds in seconds, without the resource', async () => {
    for (let id = 0; id < 50; id += 1) await app.locks.using(`goods:${id}`, () => undefined);
    for (const [name, outcome] of [
      ['redis_lock.acquire.duration', 'granted'],
      ['redis_lock.hold.duration', 'released'],
    ]) {
      const data = (await metric(name)) as HistogramMetricData;
      expect(data.descriptor).toMatchObject({ unit: 's' });
      expect(data.dataPointType).toBe(DataPointType.HISTOGRAM);
      expect(data.dataPoints).toHaveLength(1);
      expect(data.dataPoints[0].attributes).toEqual({ ...seriesOf('goods'), 'redis_lock.outcome': outcome });
      expect(data.dataPoints[0].value).toMatchObject({ count: 50 });
      expect(data.dataPoints[0].value.buckets.boundaries).toContain(0.005);
      expect(data.dataPoints[0].value.sum).toBeLessThan(60);
    }
    expect((await metric('redis_lock.hold.count'))?.dataPoints.map(({ value }) => value)).toEqual([0]);
  });

  it('stops and begins again', async () => {
    instrumentation.disable();
    instrumentation.disable();
    await app.locks.using('goods:1', () => undefined);
    expect(names()).toEqual([]);
    instrumentation.enable();
    instrumentation.enable();
    await app.locks.using('goods:1', () => undefined);
    expect(names()).toEqual(['acquire goods', 'hold goods']);
  });

  it('works with providers of its own, as registerInstrumentations sets them', async () => {
    instrumentation.disable();
    const own = new InMemorySpanExporter();
    const second = new RedisLockInstrumentation({ enabled: false });
    await app.locks.using('goods:1', () => undefined);
    expect(second.getConfig().enabled).toBe(false);
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(own)] });
    registerInstrumentation(second, provider, meters);
    try {
      await app.locks.using('goods:2', () => undefined);
    } finally {
      second.disable();
    }
    expect(own.getFinishedSpans().map(({ name, attributes }) => [name, attributes[RESOURCE]])).toEqual([
      ['acquire goods', 'goods:2'],
      ['hold goods', 'goods:2'],
    ]);
    expect(names()).toEqual([]);
    expect((await metric('redis_lock.hold.duration'))?.dataPoints).toHaveLength(1);
  });

  it('never lets an error of a provider reach the caller of a lock', async () => {
    instrumentation.setTracerProvider({
      getTracer: () => {
        throw new Error('the provider is broken');
      },
    });
    await expect(app.locks.using('goods:1', () => 'done')).resolves.toBe('done');
  });

  it('refuses options that it does not have', () => {
    expect(() => new RedisLockInstrumentation({ enable: true } as never)).toThrow(
      'RedisLockInstrumentation: unknown option enable; expected enabled.',
    );
  });

  /** Waits until the span of a request has ended, which may be after its response has arrived. */
  async function until(name: string): Promise<void> {
    while (!names().includes(name)) await new Promise((resolve) => setImmediate(resolve));
  }

  function rootOf(span: ReadableSpan): ReadableSpan | undefined {
    const id = span.parentSpanContext?.spanId;
    const parent = exporter.getFinishedSpans().find((other) => other.spanContext().spanId === id);
    return parent === undefined ? span : rootOf(parent);
  }
});
