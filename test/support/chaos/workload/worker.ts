// The main of a forked process: its callers read, pause and write under the lock until the parent makes them leave.
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { randomFrom } from '../../random.js';
import type { OpEvent } from '../history/events.js';
import { type Order, type Report, RESOURCE, type WorkerTask } from './orders.js';
import { type Caller, WORKLOADS } from './kinds.js';
import { Resource } from './resource.js';

const task = JSON.parse(process.argv[2]) as WorkerTask;
const report = (one: Report, then = (): void => undefined): void => void process.send?.(one, then);
const crash = (error: unknown): void =>
  report({ kind: 'crash', error: String((error as Error).stack) }, () => process.exit(1));
process.on('disconnect', () => process.exit());
process.on('uncaughtException', crash).on('unhandledRejection', crash);

// Before the library is loaded: it takes the digests of its scripts then.
if (task.off !== undefined) {
  const { switchOff } = await import('../ablations.js');
  await switchOff(task.off);
}
const { Visits } = await import('./visits.js');
const { startLocks } = await import('./locks.js');

/** Writes synchronously, so that nothing is missing after a SIGKILL. */
const log = (event: OpEvent, ordered = false): void => {
  appendFileSync(task.file, `${JSON.stringify(event)}\n`);
  report(ordered ? { ...event, ordered } : event);
};
const random = randomFrom(task.seed);
const resource = new Resource(task.resource, { fenceOn: task.off !== 'fence', random });
const locks = await startLocks(task);
const leaving = new AbortController();
/** Whether SIGTERM has come: its callers make no further calls, and those that wait continue. */
let isStopping = false;
const { callers } = WORKLOADS[task.workload];
const visits = new Visits({
  name: task.name,
  locks: locks.service,
  resource,
  random,
  log,
  report,
  ttlMs: task.terms.ttlMs,
  leaving: leaving.signal,
  excludes: callers.some(({ mode }) => mode === 'exclusive'),
});

async function call(caller: Caller): Promise<void> {
  while (!isLeaving()) {
    await visits.rested(caller.mode);
    if (isLeaving()) return;
    await visits.once(caller);
    await sleep(random() * task.thinkMs);
  }
}

const isLeaving = (): boolean => isStopping || leaving.signal.aborted;
const done = Promise.all(callers.map(call));
let resumed: Promise<unknown> = Promise.resolve();

async function leave(): Promise<void> {
  leaving.abort();
  visits.go();
  await done;
  await resumed;
  await locks.close();
  end();
}

async function shutDown(): Promise<void> {
  isStopping = true;
  visits.go();
  await locks.shutDown();
  // Work that has outlasted the grace continues without its lock.
  await done;
  end();
}

function end(): void {
  resource.close();
  process.disconnect();
}

async function force(): Promise<void> {
  report({ kind: 'forced', released: await locks.service.forceRelease(RESOURCE) });
}

process.once('SIGTERM', () => void shutDown().catch(crash));

process.on('message', (order: Order) => {
  if (order.kind === 'hold') visits.order(order);
  else if (order.kind === 'resume') resumed = Promise.all([resumed, isLeaving() || visits.resume(order.visit)]);
  else if (order.kind === 'end') visits.endOrdered();
  else if (order.kind === 'leave') leave().catch(crash);
  else if (order.kind === 'force') force().catch(crash);
  else if (order.kind === 'go') visits.go(order.readers);
  else visits.rest();
});
report({ kind: 'ready', instance: locks.service.engine.instanceId });
