// The main of a forked process: its callers read, pause and write under the lock until the parent makes them leave.
import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs, randomFrom } from '../../random.js';
import type { OpEvent } from '../history/events.js';
import { write } from './history-file.js';
import { type Detached, type Order, type Report, RESOURCE, type WorkerTask } from './orders.js';
import { type Caller, WORKLOADS } from './kinds.js';
import { Resource } from './resource.js';

const task = JSON.parse(process.argv[2]) as WorkerTask;
process.on('disconnect', () => process.exit());
const crash = (error: unknown): void => {
  process.send?.({ kind: 'crash', error: String((error as Error).stack) } satisfies Report, () => process.exit(1));
};
process.on('uncaughtException', crash).on('unhandledRejection', crash);

// Before the library is loaded: it takes the digests of its scripts then.
if (task.off !== undefined) {
  const { switchOff } = await import('../ablations.js');
  await switchOff(task.off);
}
const { Visits } = await import('./visits.js');
const { startLocks } = await import('./locks.js');

const log = (event: OpEvent, ordered = false): void => {
  write(task.file, event);
  process.send?.(ordered ? { ...event, ordered } : event);
};
const random = randomFrom(task.seed);
const resource = new Resource(task.resource, { fenceOn: task.off !== 'fence', random });
const looked = (op: string): void => void process.send?.({ kind: 'looked', op } satisfies Report);
const pass = (visit: Detached): void => void process.send?.({ kind: 'pass', visit } satisfies Report);
const locks = await startLocks(task);
const leaving = new AbortController();
/** Whether SIGTERM has come: its callers make no further calls, and those that wait continue. */
let isStopping = false;
const { service } = locks;
const { callers } = WORKLOADS[task.workload];
const deps = {
  name: task.name,
  locks: service,
  resource,
  random,
  log,
  looked,
  pass,
  ttlMs: task.terms.ttlMs,
  now: machineMs,
  leaving: leaving.signal,
  excludes: callers.some(({ mode }) => mode === 'exclusive'),
};
const visits = new Visits(deps);

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
  const released = await service.forceRelease(RESOURCE);
  process.send?.({ kind: 'forced', released } satisfies Report);
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
process.send?.({ kind: 'ready', instance: service.engine.instanceId } satisfies Report);
