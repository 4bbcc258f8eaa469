// What subscribers of events, traces and metrics cost. Locks in memory, so that the time is that of this library alone.
// Each kind of subscriber has a process of its own, because a channel that had a subscriber is slower forever.
import { ownCpuMs } from '../cpu.mjs';
import { load, LockRuntime, logger } from '../library.mjs';
import { interleaved, median, medianOf, rowsOf } from '../measure.mjs';
import { Worker } from '../processes.mjs';
import { roundsOf, TTL_MS } from '../settings.mjs';
import { stated, target } from '../targets.mjs';

const TITLE = 'Subscribers of events, traces and metrics';
const NONE = 'no subscriber';
const WARM_UP = 20_000;
const HOUR_MS = 3_600_000;

/** How each kind subscribes. */
const SUBSCRIBERS = {
  [NONE]: async () => undefined,
  'empty subscribers of all events': async () => {
    const { lockChannels } = await load('events/index.js');
    for (const channel of Object.values(lockChannels)) channel.subscribe(() => undefined);
  },
  'empty subscribers of both tracing channels': async () => {
    const { lockTracing } = await load('events/index.js');
    for (const { start, asyncEnd } of Object.values(lockTracing)) {
      for (const channel of [start, asyncEnd]) channel.subscribe(() => undefined);
    }
  },
  '`collectLockMetrics()`': async () => {
    const { collectLockMetrics } = await load('prometheus/index.js');
    collectLockMetrics();
  },
  '`RedisLockInstrumentation` without an SDK': instrument,
  '`RedisLockInstrumentation` with an SDK that drops its spans': async () => {
    await startSdk();
    await instrument();
  },
};

async function instrument() {
  const { RedisLockInstrumentation } = await load('opentelemetry/index.js');
  return new RedisLockInstrumentation();
}

/** Sets the global providers. Spans are recorded and dropped, and metrics are collected once an hour. */
async function startSdk() {
  const { context, metrics, trace } = await import('@opentelemetry/api');
  const { AsyncLocalStorageContextManager } = await import('@opentelemetry/context-async-hooks');
  const { BasicTracerProvider, NoopSpanProcessor } = await import('@opentelemetry/sdk-trace-base');
  const sdk = await import('@opentelemetry/sdk-metrics');
  const exporter = new sdk.InMemoryMetricExporter(sdk.AggregationTemporality.CUMULATIVE);
  const reader = new sdk.PeriodicExportingMetricReader({ exporter, exportIntervalMillis: HOUR_MS });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new NoopSpanProcessor()] }));
  metrics.setGlobalMeterProvider(new sdk.MeterProvider({ readers: [reader] }));
}

let service;

/** The operations of each process. */
export const ops = {
  async open(kind) {
    const { memory } = await load('index.js');
    await SUBSCRIBERS[kind]();
    const options = { store: memory(), ttlMs: TTL_MS, waitMs: Infinity, shutdownGraceMs: 0 };
    const runtime = LockRuntime.start(options, undefined, { logger });
    runtime.connect();
    service = runtime.service;
    await use(WARM_UP);
  },
  use: (times) => use(times),
  checks: () => checks(),
};

const work = () => undefined;

/** Returns the processor time of a lock, in µs. */
async function use(times) {
  const start = process.cpuUsage();
  for (let i = 0; i < times; i++) await service.using('goods:300', work);
  return { us: (ownCpuMs(start) / times) * 1000 };
}

/** Returns what the events of a lock cost if nothing subscribes: the time in µs, and the bytes that they allocate. */
async function checks() {
  const { LockEvents } = await load('events/diagnostics.js');
  const events = new LockEvents('default');
  const options = { mode: 'exclusive', waitMs: Infinity };
  const targets = Array.from({ length: 64 }, (_, i) => ({ resource: `goods:${i}`, key: `{lock_goods}:${i}`, call: i }));
  const locks = targets.map((each) => ({
    shared: { ...each, token: 1, grantedAt: 0, options, loss: undefined, trace: undefined },
  }));
  const clock = { now: () => 0 };
  const publish = (times) => {
    for (let i = 0; i < times; i++) {
      const each = i & 63;
      events.requested(targets[each], options);
      events.granted(locks[each], targets[each], 0);
      events.released(locks[each].shared, clock);
    }
  };
  publish(1_000_000);
  const [times, few] = [10_000_000, 50_000];
  const start = performance.now();
  publish(times);
  const us = ((performance.now() - start) / times) * 1000;
  const bytes = [];
  // Few enough that no garbage collection runs meanwhile.
  for (let i = 0; i < 5; i++) {
    globalThis.gc();
    const before = process.memoryUsage().heapUsed;
    publish(few);
    bytes.push((process.memoryUsage().heapUsed - before) / few);
  }
  return { us, bytes: median(bytes) };
}

export async function run(plan) {
  const absent = await whyAbsent();
  if (absent !== undefined) return [{ id: '14', title: TITLE, absent }];
  const entries = Object.keys(SUBSCRIBERS).map((name) => {
    return { name, kind: name === NONE ? 'floor' : 'ours', worker: new Worker('14-subscribers.mjs') };
  });
  try {
    for (const { name, worker } of entries) await worker.call('open', name);
    return [await measure(plan, entries)];
  } finally {
    await Promise.all(entries.map(({ worker }) => worker.stop()));
  }
}

async function measure(plan, entries) {
  const [slices, times] = [plan.quick ? 2 : 4, 4_000];
  const turn = async ({ worker }) => ({ figures: await worker.call('use', times) });
  const measured = await interleaved({ entries, rounds: roundsOf(plan), slices, turn });
  const none = measured.get(NONE);
  const without = await entries.find(({ name }) => name === NONE).worker.call('checks');
  const added = (of) => median(of.rounds.map(({ us }, i) => us - none.rounds[i].us));
  const others = entries.filter(({ name }) => name !== NONE);
  return {
    id: '14',
    title: TITLE,
    method:
      `${slices} times ${times.toLocaleString('en')} calls of \`using\` a round, one after the other, on one lock of ` +
      '`memory()`. CPU is user and system time of the process. The checks are measured apart, without a lock.',
    columns: [{ figure: 'us', title: 'µs of CPU a lock', digits: 1 }],
    rows: rowsOf(entries, measured),
    targets: [
      target('14', 'checks without a subscriber ÷ CPU of a lock in memory', without.us / medianOf(none, 'us')),
      target('14', 'bytes that the checks of a lock allocate', without.bytes),
      ...others.map(({ name }) => stated(`more with ${name}`, added(measured.get(name)), 'µs')),
    ],
  };
}

/** Returns why nothing can be measured: an earlier build, or packages that are not installed. */
async function whyAbsent() {
  try {
    await Promise.all([load('prometheus/index.js'), load('opentelemetry/index.js')]);
    await Promise.all([import('@opentelemetry/sdk-metrics'), import('@opentelemetry/sdk-trace-base')]);
    return undefined;
  } catch (error) {
    return error.message;
  }
}
