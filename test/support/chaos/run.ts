import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { machineMs } from '../random.js';
import { startRedis } from '../redis/index.js';
import { eventually } from '../redis-locks.js';
import type { Fault } from './faults/index.js';
import { Fleet } from './fleet/fleet.js';
import { check, type Findings } from './history/checker.js';
import type { Event, History, OpEvent } from './history/events.js';
import { linesOf } from './history/lines.js';
import { type Breach, breachesOf, type Promises } from './history/promises.js';
import { Scene } from './scene.js';
import { startTopology, type Topology } from './topology/index.js';
import { PREFIX, type StoreName } from './workload/orders.js';
import { Resource } from './workload/resource.js';

/** One fault on one store. */
export interface RunOrder {
  readonly fault: Fault;
  readonly store: StoreName;
  readonly seed: number;
  /** Switches the fault's defence off. */
  readonly control: boolean;
}

export interface RunResult {
  readonly order: RunOrder;
  readonly findings: Findings;
  readonly breaches: ReadonlyMap<Breach, string>;
  /** Of Redis. */
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
/** Keys of killed processes end with their leases, or are removed by the next caller. */
const CLEARED_MS = 20_000;

/** A process crashed or did not leave, which no fault excuses. */
export class Misbehaviour extends Error {
  override readonly name = 'Misbehaviour';
}

/**
 * Runs an order on its own servers and processes, and checks the history.
 *
 * @param historyFile the file that the history is written to, in the format of `labs/chaos/judge`.
 */
export async function run(order: RunOrder, historyFile?: string): Promise<RunResult> {
  const { fault, store, seed, control } = order;
  const { terms, workload = 'alone', client } = fault;
  const folder = await mkdtemp(join(tmpdir(), 'chaos-'));
  const durable = fault.durable === true;
  const topology = await startTopology(store, fault.on, { clocks: fault.clocks === 'servers', durable });
  const resource = await startRedis({ local: true });
  const off = control ? fault.control.without : undefined;
  const common = { store, workload, resource: resource.url, terms, off, client };
  const fleet = new Fleet(topology, { common, folder, seed, clocks: fault.clocks === 'clients' });
  try {
    const history = await historyOf(order, fleet, topology, resource.url);
    if (historyFile !== undefined) await writeFile(historyFile, linesOf(history));
    const promises = promisesOf(fault, store);
    const tokens = store === 'redisson' ? 'counter' : 'clock';
    const findings = check(history, { longWaitMs: promises.waitMs, tokens });
    const breaches = breachesOf(findings, promises);
    if (breaches.size > 0 && !control) {
      await mkdir(KEPT, { recursive: true });
      await writeFile(join(KEPT, `${fileNameOf(order)}.json`), JSON.stringify({ order, history }));
    }
    return { order, findings, breaches, version: topology.victim.server.version };
  } finally {
    await fleet.end();
    await topology.close();
    await resource.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns a name for the files of a run, without an extension. */
export function fileNameOf(order: RunOrder): string {
  return nameOf(order).replaceAll(/[^\w,]+/g, '-');
}

export function nameOf({ fault, store, seed, control }: RunOrder): string {
  return `${fault.name}, ${store}, seed ${seed}${control ? `, without ${fault.control.without}` : ''}`;
}

/**
 * Only this store orders waiters of several processes. With the others, a waiter may be overtaken until its refusal.
 */
const ORDERED = 'token';

export function promisesOf(fault: Fault, store: StoreName): Promises {
  if (store === ORDERED) return fault.promises;
  const promises = { ...fault.promises, ...fault.others?.[store] };
  const { waitMs, requestTimeoutMs } = fault.terms;
  return { ...promises, freeMs: undefined, waitMs: Math.max(promises.waitMs, waitMs + requestTimeoutMs + REFUSED_MS) };
}

/** Returns how long all members may take to get the lock again. It exceeds every promise. */
function settlesWithin({ fault, store, control }: RunOrder): number {
  if (store !== ORDERED) return UNORDERED_MS;
  // A control ends as soon as its breach must be visible.
  return control ? fault.promises.waitMs + BEYOND_MS : fault.terms.waitMs + LONGEST_CLOSURE_MS;
}

async function historyOf(order: RunOrder, fleet: Fleet, topology: Topology, url: string): Promise<History> {
  const scene = new Scene(fleet, topology, settlesWithin(order));
  const haveNotCrashed = (): void => {
    if (fleet.crashes.length > 0) throw new Misbehaviour(fleet.crashes.join('\n'));
  };
  await fleet.fill();
  await scene.settle();
  haveNotCrashed();
  const end = order.control ? await runControl(order, scene) : await runToTheEnd(order, scene);
  haveNotCrashed();
  const events: Event[] = [...scene.events];
  for (const member of fleet.all) {
    const file = fleet.fileOf(member);
    // The last line may be incomplete.
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
    events.push(...member.absences, ...lines.map((line) => JSON.parse(line) as OpEvent));
  }
  const resource = new Resource(url);
  const contents = await resource.contents();
  resource.close();
  return { events: events.toSorted((one, other) => one.at - other.at), ...contents, ...end };
}

async function runToTheEnd({ fault }: RunOrder, scene: Scene): Promise<Pick<History, 'leftovers'>> {
  await scene.inject(fault);
  const stayed = await scene.fleet.leave();
  if (stayed.length > 0) throw new Misbehaviour(`${stayed.join()} did not leave`);
  const { servers, victim } = scene.topology;
  const keepers = fault.on === undefined ? servers : [victim];
  let leftovers: readonly string[] = [];
  const none = async (): Promise<boolean> => {
    const keys = await Promise.all(keepers.map(({ admin }) => admin.keys(`*${PREFIX}*`)));
    // The last token outlives a lock by design.
    leftovers = keys.flat().filter((key) => !/\|fence$|^redisson_lock_token:/.test(key));
    return leftovers.length === 0;
  };
  await eventually('nothing is left', none, CLEARED_MS).catch(() => undefined);
  return { leftovers };
}

/** Injects the fault. Without its defence, it may end in any way. */
async function runControl({ fault }: RunOrder, scene: Scene): Promise<Pick<History, 'leftovers' | 'until'>> {
  await scene.inject(fault).catch(() => undefined);
  return { leftovers: [], until: machineMs() };
}
