import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomFrom } from '../random.js';
import { startRedis } from '../redis/index.js';
import { eventually } from '../redis-locks.js';
import type { Fault } from './faults/index.js';
import { Fleet } from './fleet/fleet.js';
import { check, type Findings } from './history/checker.js';
import type { Event, History } from './history/events.js';
import { linesOf, textOf } from './history/lines.js';
import { type Breach, breachesOf, type Promises } from './history/promises.js';
import { Scene } from './scene.js';
import { startTopology, type Topology } from './topology/index.js';
import { read } from './workload/history-file.js';
import type { StoreName } from './workload/orders.js';
import { Resource } from './workload/resource.js';

/** One fault on one store. */
export interface RunOrder {
  readonly fault: Fault;
  readonly store: StoreName;
  readonly seed: number;
  /** Switches the fault's defence off. */
  readonly control: boolean;
  /** The file that the history is written to, in the format of `labs/chaos/judge`. Default: it is not written. */
  readonly historyFile?: string | undefined;
}

export interface RunResult {
  readonly order: RunOrder;
  readonly findings: Findings;
  readonly breaches: ReadonlyMap<Breach, string>;
  readonly version: string;
}

/** The folder with the histories of runs that broke a promise. */
export const KEPT = join(tmpdir(), 'chaos-broken');

/** A lock that was handed to a process that is dead stays closed for 1.2 s. The rest is for recovery. */
const LONGEST_CLOSURE_MS = 4_000;
const BEYOND_MS = 1_500;
/** Some members enter meanwhile. */
const UNORDERED_MS = 2_500;
/** How late a refusal may come on a busy machine. */
const REFUSED_MS = 2_000;

/** A process crashed or did not leave, which no fault excuses. */
export class Misbehaviour extends Error {
  override readonly name = 'Misbehaviour';
}

/** Keys of killed processes end with their leases, or are removed by the next caller. */
const CLEARED_MS = 20_000;

/** Runs an order on its own servers and processes, and checks the history. */
export async function run(order: RunOrder): Promise<RunResult> {
  const { fault, store, seed } = order;
  const folder = await mkdtemp(join(tmpdir(), 'chaos-'));
  const durable = fault.durable === true;
  const topology = await startTopology(store, fault.on, { clocks: fault.clocks === 'servers', durable });
  const resource = await startRedis({ local: true });
  try {
    const fleet = await Fleet.start(topology, {
      store,
      workload: fault.workload ?? 'alone',
      resource: resource.url,
      terms: fault.terms,
      off: order.control ? fault.ablation : undefined,
      folder,
      seed,
      clocks: fault.clocks === 'clients',
      client: fault.client,
    });
    try {
      const history = await historyOf(order, fleet, topology, resource.url);
      if (order.historyFile !== undefined) await writeFile(order.historyFile, textOf(linesOf(history)));
      const promises = promisesOf(fault, store);
      const terms = { longWaitMs: promises.waitMs, tokens: store === 'redisson' ? 'counter' : 'clock' } as const;
      const findings = check(history, terms);
      const breaches = breachesOf(findings, promises);
      if (breaches.size > 0 && !order.control) await keep(order, history);
      return { order, findings, breaches, version: topology.version };
    } finally {
      await fleet.end();
    }
  } finally {
    await topology.close();
    await resource.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function keep(order: RunOrder, history: History): Promise<void> {
  await mkdir(KEPT, { recursive: true });
  await writeFile(join(KEPT, `${fileNameOf(order)}.json`), JSON.stringify({ order, history }));
}

/** Returns the name of the file of a run, without its extension. */
export function fileNameOf({ fault, store, seed, control }: RunOrder): string {
  const name = [fault.name, store, seed, ...(control ? [`without ${fault.ablation}`] : [])].join(', ');
  return name.replaceAll(/[^\w,]+/g, '-');
}

/**
 * Only this store orders waiters of several processes. With the others, a waiter may be overtaken until its refusal.
 */
const ORDERED: StoreName = 'token';

export function promisesOf(fault: Fault, store: StoreName): Promises {
  const promises = { ...fault.promises, ...fault.stores[store] };
  if (store === ORDERED) return promises;
  const { waitMs, requestTimeoutMs } = fault.terms;
  return { ...promises, freeMs: undefined, waitMs: Math.max(promises.waitMs, waitMs + requestTimeoutMs + REFUSED_MS) };
}

/** Returns how long all members may take to get the lock again. It exceeds every promise. */
function settlesWithin({ fault, store, control }: RunOrder): number {
  if (store !== ORDERED) return UNORDERED_MS;
  // A control ends as soon as its breach must be visible.
  return control ? promisesOf(fault, store).waitMs + BEYOND_MS : fault.terms.waitMs + LONGEST_CLOSURE_MS;
}

async function historyOf(order: RunOrder, fleet: Fleet, topology: Topology, url: string): Promise<History> {
  const { seed, control } = order;
  const scene = new Scene(fleet, topology, randomFrom(seed), settlesWithin(order));
  await scene.settle();
  if (fleet.crashes.length > 0) throw new Misbehaviour(fleet.crashes.join('\n'));
  const end = control ? await runControl(order, scene) : await runToTheEnd(order, scene);
  if (fleet.crashes.length > 0) throw new Misbehaviour(fleet.crashes.join('\n'));
  const events: Event[] = [...scene.events];
  for (const member of fleet.all) {
    events.push(...member.absences);
    if (existsSync(fleet.fileOf(member))) events.push(...read(fleet.fileOf(member)));
  }
  const resource = new Resource(url);
  const contents = await resource.contents();
  resource.close();
  return { events: events.toSorted((one, other) => one.at - other.at), ...contents, ...end };
}

async function runToTheEnd({ fault }: RunOrder, scene: Scene): Promise<Pick<History, 'leftovers'>> {
  await fault.inject(scene);
  const stayed = await scene.fleet.leave();
  if (stayed.length > 0) throw new Misbehaviour(`${stayed.join()} did not leave`);
  return { leftovers: await leftoversOf(scene.topology) };
}

/** Injects the fault. Without its defence, it may end in any way. */
async function runControl({ fault }: RunOrder, scene: Scene): Promise<Pick<History, 'leftovers' | 'until'>> {
  try {
    await fault.inject(scene);
  } catch {
    // The fault waited for something that did not happen.
  }
  return { leftovers: [], until: scene.now() };
}

/** Returns the keys that stay. */
async function leftoversOf(topology: Topology): Promise<readonly string[]> {
  let leftovers: readonly string[] = [];
  const none = async (): Promise<boolean> => {
    leftovers = await topology.leftovers();
    return leftovers.length === 0;
  };
  await eventually('nothing is left', none, CLEARED_MS).catch(() => undefined);
  return leftovers;
}
