// The main of a forked process: an application under full load that shuts down as Nest does on SIGTERM.
import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { LockError } from '../../../lib/common/errors.js';
import { LockService } from '../../../lib/lock.service.js';
import type { LockOptions } from '../../../lib/options/lock.options.js';
import { lockModule } from '../../../test/support/lock-module.js';
import { randomFrom } from '../../../test/support/random.js';

/** The task of a worker. */
export interface SoakTask {
  readonly redis: string;
  readonly prefix: string;
  readonly resources: readonly string[];
  readonly callers: number;
  readonly seed: number;
  readonly graceMs: number;
}

/** The resources of a process at one moment. */
export interface Sample {
  readonly heapBytes: number;
  readonly timers: number;
  readonly sockets: number;
}

/** A message of a worker. */
export type SoakReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'sample'; readonly sample: Sample; readonly locks: number }
  | { readonly kind: 'fault'; readonly error: string };

const SAMPLE_MS = 1_000;

const task = JSON.parse(process.argv[2]) as SoakTask;
const random = randomFrom(task.seed);
const report = (one: SoakReport): void => void process.send?.(one);
const fault = (error: unknown): void => report({ kind: 'fault', error: String((error as Error).stack ?? error) });
process.on('unhandledRejection', fault).on('uncaughtException', fault);
process.on('disconnect', () => process.exit());

const { redis, prefix, graceMs } = task;
const options = { redis, prefix, ttlMs: 2_000, waitMs: 1_500, shutdownGraceMs: graceMs };
const app = await NestFactory.createApplicationContext(lockModule({ ...options, requestTimeoutMs: 500 }), {
  logger: false,
});
app.enableShutdownHooks();
const locks = app.get(LockService);
const leaving = new AbortController();
let taken = 0;
// Once: Nest sends the signal again after its shutdown, to end the process.
process.once('SIGTERM', () => leaving.abort());

/** Returns the mode of a resource: readers and writers, permits, or exclusive for most. */
function termsOf(place: number): LockOptions {
  if (place % 5 === 3) return { mode: random() < 0.8 ? 'shared' : 'exclusive' };
  return place % 5 === 4 ? { permits: 4 } : {};
}

async function call(): Promise<void> {
  while (!leaving.signal.aborted) {
    const place = Math.floor(random() * task.resources.length);
    try {
      await locks.using(task.resources[place], termsOf(place), async () => {
        taken += 1;
        if (random() < 0.2) await sleep(random() * 5);
      });
    } catch (error) {
      if (!(error instanceof LockError)) fault(error);
      await sleep(random() * 20);
    }
    if (random() < 0.05) await sleep(random() * 20);
  }
}

function sample(): Sample {
  globalThis.gc?.();
  const resources = process.getActiveResourcesInfo();
  const count = (name: string): number => resources.filter((one) => one === name).length;
  return { heapBytes: process.memoryUsage().heapUsed, timers: count('Timeout'), sockets: count('TCPSocketWrap') };
}

for (let i = 0; i < task.callers; i += 1) void call();
const sampling = setInterval(() => report({ kind: 'sample', sample: sample(), locks: taken }), SAMPLE_MS);
sampling.unref();
report({ kind: 'ready' });
