import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomFrom } from '../support/random.js';
import { startRedis } from '../support/redis/index.js';
import { eventually } from '../support/redis-locks.js';
import type { Fault } from './faults/index.js';
import { Fleet } from './fleet/fleet.js';
import { check, type Findings } from './history/checker.js';
import type { Event, History } from './history/events.js';
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
  /** How often trouble is made. */
  readonly times: number;
  /** Without the defence that the fault puts to the test. */
  readonly control: boolean;
}

export interface RunResult {
  readonly order: RunOrder;
  readonly findings: Findings;
  readonly breaches: ReadonlyMap<Breach, string>;
  readonly version: string;
}

/** The history of the last run that broke a promise, for whoever looks into it. */
export const KEPT = join(tmpdir(), 'chaos-broken.json');

/** A lock that was handed over is closed for 3 s at most until its new holder says a word; and a second to get well. */
const LONGEST_CLOSURE_MS = 4_000;
const BEYOND_MS = 1_500;
/** Some get in meanwhile. */
const UNORDERED_MS = 2_500;
/** A refusal comes when its time is over; a busy machine takes a little longer. */
const REFUSED_MS = 2_000;

/** A process did what none may, whatever happens around it. */
export class Misbehaviour extends Error {
  override readonly name = 'Misbehaviour';
}

/** What is left of the dead is over by its lease, and cleared by whoever comes next. */
const CLEARED_MS = 20_000;

/** Runs it on servers and processes of its own, and judges its history. */
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
      off: order.control ? fault.defence : undefined,
      folder,
      seed,
      clocks: fault.clocks === 'clients',
    });
    try {
      const history = await historyOf(order, fleet, topology, resource.url);
      const promises = promisesOf(fault, store);
      const terms = { longWaitMs: promises.waitMs, tokens: store === 'redisson' ? 'counter' : 'clock' } as const;
      const findings = check(history, terms);
      const breaches = breachesOf(findings, promises);
      if (breaches.size > 0 && !order.control) await writeFile(KEPT, JSON.stringify({ order, history }));
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

/** Only this store keeps an order between processes; of the others whoever waits may be unlucky until it is refused. */
const ORDERED: StoreName = 'token';

export function promisesOf(fault: Fault, store: StoreName): Promises {
  const promises = { ...fault.promises, ...fault.stores[store] };
  if (store === ORDERED) return promises;
  const { waitMs, requestTimeoutMs } = fault.terms;
  return { ...promises, waitMs: Math.max(promises.waitMs, waitMs + requestTimeoutMs + REFUSED_MS) };
}

/** How soon everybody should have got the lock again; longer than may be promised. */
function settlesWithin({ fault, store, control }: RunOrder): number {
  if (store !== ORDERED) return UNORDERED_MS;
  // A control is broken off as soon as it must have been seen that it broke.
  return control ? promisesOf(fault, store).waitMs + BEYOND_MS : fault.terms.waitMs + LONGEST_CLOSURE_MS;
}

async function historyOf(order: RunOrder, fleet: Fleet, topology: Topology, url: string): Promise<History> {
  const { seed, control } = order;
  const scene = new Scene(fleet, topology, randomFrom(seed), settlesWithin(order));
  await scene.settle();
  const end = control ? await brokenOff(order, scene) : await comesToAnEnd(order, scene);
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

async function comesToAnEnd({ fault, times }: RunOrder, scene: Scene): Promise<Pick<History, 'leftovers'>> {
  for (let i = 0; i < times; i += 1) await fault.inject(scene);
  const stayed = await scene.fleet.leave();
  if (stayed.length > 0) throw new Misbehaviour(`${stayed.join()} did not leave`);
  return { leftovers: await cleared(scene.topology) };
}

/** Without its defence, trouble may end in any way. */
async function brokenOff({ fault, times }: RunOrder, scene: Scene): Promise<Pick<History, 'leftovers' | 'until'>> {
  try {
    for (let i = 0; i < times; i += 1) await fault.inject(scene);
  } catch {
    // What it waited for did not happen.
  }
  return { leftovers: [], until: scene.now() };
}

/** The keys that stay. */
async function cleared(topology: Topology): Promise<readonly string[]> {
  let leftovers: readonly string[] = [];
  const none = async (): Promise<boolean> => {
    leftovers = await topology.leftovers();
    return leftovers.length === 0;
  };
  await eventually('nothing is left', none, CLEARED_MS).catch(() => undefined);
  return leftovers;
}
