// The main of a forked process. It acquires locks at random until its parent stops it, and reports to the parent.
import { setTimeout as sleep } from 'node:timers/promises';
import { LockError } from '../../lib/common/errors.js';
import type { Lock } from '../../lib/engine/lock.js';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { machineMs, randomFrom } from './random.js';
import type { InstanceOptions } from './redis-locks.js';
import type { Report } from './referee.js';
import { silent } from './silent-logger.js';

/** The task of one process. */
export interface FuzzTask {
  readonly seed: number;
  readonly resources: readonly string[];
  readonly callers: number;
  readonly options: InstanceOptions;
}

const { seed, resources, callers, options: given } = JSON.parse(process.argv[2]) as FuzzTask;
const random = randomFrom(seed);
const { requestTimeoutMs, ...options } = given;
const runtime = LockRuntime.start({ unavailableAfterMs: Infinity, ...options }, undefined, {
  requestTimeoutMs,
  logger: silent,
});
const stop = new AbortController();

const report = (one: Report): void => void process.send?.(one);

/** Polls the lock: it was held at each reported moment. */
async function hold(lock: Lock, until: number): Promise<number> {
  for (let seen = machineMs(); ;) {
    const at = machineMs();
    if (lock.expiresInMs > 0) seen = at;
    else return seen;
    if (at >= until) return seen;
    await sleep(Math.min(5, until - at));
  }
}

async function turn(id: string): Promise<void> {
  const resource = resources[Math.floor(random() * resources.length)];
  const abort = new AbortController();
  const timer = random() < 0.15 ? setTimeout(() => abort.abort(new Error('left')), random() * 60) : undefined;
  report({ kind: 'asked', id, resource, at: machineMs() });
  try {
    const lock = await runtime.service.acquire(resource, { signal: abort.signal });
    const at = machineMs();
    if (lock.expiresInMs > 0) report({ kind: 'entered', id, token: lock.fencingToken, at });
    const seen = await hold(lock, at + (random() < 0.01 ? 300 + random() * 1_000 : random() * 15));
    report({ kind: 'left', id, at: machineMs(), seen });
    await lock.release();
  } catch (error) {
    const expected = error instanceof LockError || (error as Error).message === 'left';
    report({ kind: 'gone', id, at: machineMs(), fault: expected ? undefined : String(error) });
  } finally {
    clearTimeout(timer);
  }
}

async function caller(name: number): Promise<void> {
  for (let round = 0; !stop.signal.aborted; round += 1) {
    await turn(`${process.pid}:${name}:${round}`);
    await sleep(random() * 10);
  }
}

runtime.connect();
const done = Promise.all(Array.from({ length: callers }, (_, name) => caller(name)));
process.on('disconnect', () => process.exit());
process.on('message', () => {
  stop.abort();
  void done.then(() => runtime.close()).then(() => process.disconnect());
});
