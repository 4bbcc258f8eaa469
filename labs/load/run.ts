// npm run load: busy processes with a healthy Redis. See README.md.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { Logger } from '@nestjs/common';
import { LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { forkSource } from '../../test/support/lock-process.ts';
import { type RedisServer, startRedis } from '../../test/support/redis/index.ts';
import type { StartOptions, StartOutcome, StartReport } from '../bench/start-worker.ts';

const PROCESSES = 5;
const BURNERS = 3;
const WAIT_MS = 60_000;

const warnings: string[] = [];
Logger.overrideLogger({ log: () => undefined, error: () => undefined, warn: (line: string) => warnings.push(line) });

let failures = 0;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function check(holds: boolean, what: string): void {
  say(`${holds ? 'ok    ' : 'FAILED'} ${what}`);
  if (!holds) failures += 1;
}

function checkOutages(): void {
  const outages = warnings.filter((line) => line.includes('cannot be reached'));
  check(outages.length === 0, `no outage is logged${outages.length === 0 ? '' : `: ${outages[0]}`}`);
}

async function measured<T>(part: string, calls: number, run: () => Promise<T>): Promise<T> {
  const [beganAt, used] = [performance.now(), process.cpuUsage()];
  const result = await run();
  const { user, system } = process.cpuUsage(used);
  const wall = ((performance.now() - beganAt) / 1000).toFixed(1);
  say(`${part}: ${calls} calls in ${wall} s, ${((user + system) / calls).toFixed(1)} µs of CPU each`);
  return result;
}

async function withLocks(server: RedisServer, options: object, run: (runtime: LockRuntime) => Promise<void>) {
  const runtime = LockRuntime.start({ redis: server.url, shutdownGraceMs: 0, waitMs: WAIT_MS, ...options });
  runtime.connect();
  warnings.length = 0;
  try {
    await run(runtime);
    checkOutages();
  } finally {
    await runtime.close();
  }
}

async function crowd(server: RedisServer, calls: number): Promise<void> {
  await withLocks(server, { maxWaiting: 10 }, async ({ service }) => {
    const held = await service.acquire('goods:300');
    const waiting = Array.from({ length: 10 }, () => service.using('goods:300', () => true));
    const refused = await measured('crowd', calls, () =>
      Promise.allSettled(Array.from({ length: calls }, () => service.using('goods:300', () => true))),
    );
    const errors = new Set(refused.map((each) => (each.status === 'rejected' ? (each.reason as unknown) : undefined)));
    const areFull = [...errors].every((error) => error instanceof LockTimeoutError && error.isQueueFull);
    check(errors.size === calls && areFull, 'each call has an error of its own, because too many wait');
    check(held.held, 'the lock is still held');
    check(await held.release(), 'its release finds it in Redis');
    check((await Promise.all(waiting)).length === 10, 'those that waited get the lock');
  });
}

async function keys(server: RedisServer, calls: number): Promise<void> {
  await withLocks(server, {}, async ({ service }) => {
    const settled = await measured('keys', calls, () =>
      Promise.allSettled(Array.from({ length: calls }, (_, id) => service.using(`goods:${id}`, () => true))),
    );
    const errors = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
    const isBusy = (error: unknown) => error instanceof LockUnavailableError && error.message.includes('was not sent');
    say(`      ${calls - errors.length} served, ${errors.filter(isBusy).length} refused before they were sent`);
    check(errors.every(isBusy), 'all others are refused for no other reason');
  });
}

function reportOf(child: ChildProcess): Promise<StartReport> {
  return new Promise((resolve, reject) => {
    child.once('message', (report) => resolve(report as StartReport));
    child.once('exit', (code, signal) => reject(new Error(`a process has ended: ${signal ?? code}`)));
  });
}

async function start(server: RedisServer, instances: number, apart: boolean): Promise<void> {
  const burners = Array.from({ length: BURNERS }, () => spawn(process.execPath, ['--eval', 'for (;;);']));
  try {
    const each = instances / PROCESSES;
    const options = { redis: server.url, prefix: 'load_', spreadMs: 1_000, workMs: 1, waitMs: WAIT_MS, apart };
    const started: StartOptions = { ...options, instances: each };
    const children = Array.from({ length: PROCESSES }, () => forkSource('../../labs/bench/start-worker.ts', started));
    await Promise.all(children.map(reportOf));
    const reports = Promise.all(children.map(reportOf));
    const beganAt = performance.now();
    for (const child of children) child.send('go');
    const outcomes = (await reports).flat() as StartOutcome[];
    say(`start: ${instances} instances in ${((performance.now() - beganAt) / 1000).toFixed(1)} s`);
    const errors = outcomes.flatMap(({ error = [] }) => error);
    const which = apart ? 'a lock of its own' : 'the same lock';
    check(errors.length === 0, `each gets ${which}${errors.length === 0 ? '' : `: ${errors.length} ${errors[0]}`}`);
    const exits = children.map((child) => once(child, 'exit'));
    for (const child of children) child.send('close');
    await Promise.all(exits);
  } finally {
    for (const burner of burners) burner.kill('SIGKILL');
  }
}

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const scale = values.quick ? 10 : 1;
const server = await startRedis({ local: true });
try {
  await crowd(server, 200_000 / scale);
  await keys(server, 100_000 / scale);
  await start(server, 500 / scale, true);
  await start(server, 500 / scale, false);
} finally {
  await server.stop();
}
process.exitCode = failures === 0 ? 0 : 1;
