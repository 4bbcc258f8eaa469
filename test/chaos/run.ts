import { mkdtemp, rm } from 'node:fs/promises';
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

/** What is left of the dead is over by its lease, and cleared by whoever comes next. */
const CLEARED_MS = 20_000;

/** Runs it on servers and processes of its own, and judges its history. */
export async function run(order: RunOrder): Promise<RunResult> {
  const { fault, store, seed } = order;
  const folder = await mkdtemp(join(tmpdir(), 'chaos-'));
  const durable = fault.durable === true;
  const topology = await startTopology(store, { clocks: fault.clocks === 'servers', durable });
  const resource = await startRedis({ local: true });
  try {
    const fleet = await Fleet.start(topology, {
      store,
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
      return { order, findings, breaches: breachesOf(findings, promises), version: topology.version };
    } finally {
      await fleet.end();
    }
  } finally {
    await topology.close();
    await resource.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

export function promisesOf(fault: Fault, store: StoreName): Promises {
  return { ...fault.promises, ...fault.stores[store] };
}

async function historyOf(order: RunOrder, fleet: Fleet, topology: Topology, url: string): Promise<History> {
  const { fault, seed, times } = order;
  const scene = new Scene(fleet, topology, randomFrom(seed), fault.terms.waitMs);
  await scene.settle();
  for (let i = 0; i < times; i += 1) await fault.inject(scene);
  const stayed = await fleet.leave();
  if (fleet.crashes.length > 0 || stayed.length > 0) {
    throw new Error(`${stayed.join()} did not leave; ${fleet.crashes.join('\n')}`);
  }
  const leftovers = await cleared(topology);
  const events: Event[] = [...scene.events];
  for (const member of fleet.all) {
    events.push(...member.absences);
    if (existsSync(fleet.fileOf(member))) events.push(...read(fleet.fileOf(member)));
  }
  const resource = new Resource(url);
  const contents = await resource.contents();
  resource.close();
  return { events: events.toSorted((one, other) => one.at - other.at), ...contents, leftovers };
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
