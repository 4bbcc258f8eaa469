// The main of a forked process: module instances that start, each with connections of its own, and want a lock at once.
import { setTimeout as sleep } from 'node:timers/promises';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { silent } from '../../test/support/silent-logger.js';

/** What the process is to start. */
export interface StartOptions {
  readonly redis: string;
  readonly prefix: string;
  readonly instances: number;
  /** The instances start within this time. */
  readonly spreadMs: number;
  readonly workMs: number;
  /** How long each waits for the lock. Default: that of the module. */
  readonly waitMs?: number;
  /** Whether each instance wants a lock of its own, instead of the same one. */
  readonly apart: boolean;
}

/** What one instance of the process has come to. */
export interface StartOutcome {
  /** From its start to the grant, in milliseconds. */
  readonly waitedMs: number;
  /** When it was granted, in milliseconds since 1970. */
  readonly grantedAt: number;
  /** The error instead of a lock. */
  readonly error?: string;
}

/** What the parent receives. */
export type StartReport = 'ready' | readonly StartOutcome[];

const { redis, prefix, instances, spreadMs, workMs, waitMs, apart } = JSON.parse(process.argv[2]) as StartOptions;
const runtimes: LockRuntime[] = [];
const report = (outcome: StartReport): void => void process.send?.(outcome);
const now = (): number => performance.timeOrigin + performance.now();

async function start(nth: number): Promise<StartOutcome> {
  await sleep(Math.random() * spreadMs);
  const startedAt = now();
  const outcome = (error?: string): StartOutcome => ({
    waitedMs: now() - startedAt,
    grantedAt: now(),
    ...(error && { error }),
  });
  const runtime = LockRuntime.start({ redis, prefix, shutdownGraceMs: 0, waitMs }, undefined, { logger: silent });
  runtimes.push(runtime);
  runtime.connect();
  try {
    const lock = await runtime.service.acquire(apart ? `start:${process.pid}-${nth}` : 'start');
    const granted = outcome();
    await sleep(workMs);
    await lock.release();
    return granted;
  } catch (error) {
    return outcome((error as Error).name);
  }
}

process.on('disconnect', () => process.exit());
process.on('message', (order: 'go' | 'close') => {
  if (order === 'go') void Promise.all(Array.from({ length: instances }, (_, nth) => start(nth))).then(report);
  else void Promise.all(runtimes.map((runtime) => runtime.close())).then(() => process.exit());
});
report('ready');
