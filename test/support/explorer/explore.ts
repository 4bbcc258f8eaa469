import { ManualClock } from 'nestjs-redis-lock/testing';
import type { LockTable } from '../../../lib/stores/memory/lock-table.js';
import { MemoryStore } from '../../../lib/stores/memory/memory.store.js';
import { randomFrom } from '../random.js';
import { Callers } from './callers.js';
import { type Conditions, conditionsOf, NO_FAULTS } from './conditions.js';
import { Instance } from './instance.js';
import { type Measured, Measures } from './measures.js';
import { Referee } from './referee.js';
import { lookForRest } from './rest.js';

/** What one run has shown. */
export interface Result extends Measured {
  readonly problems: readonly string[];
  readonly grants: number;
  /** How many requests all instances have sent. */
  readonly requests: number;
}

/** A manual clock whose random numbers come from a seed. */
class SeededClock extends ManualClock {
  constructor(private readonly next: () => number) {
    super();
  }

  override random(): number {
    return this.next();
  }
}

/** The parts of a run, for a recorder. */
export interface Explored {
  readonly clock: ManualClock;
  readonly table: LockTable;
  readonly instances: readonly Instance[];
  readonly keys: readonly string[];
}

/** Records a run. */
export interface Recorder {
  begins(run: Explored): void;
  /** The replica has what the server has. */
  replicates(): void;
  /** The replica takes over. */
  failsOver(): void;
}

/** How long the longest of all leases and repetitions is waited for. */
const QUIET_MS = 15_000;

/**
 * Runs callers of two or three instances of the real engine on the memory table, behind faulty connections. The seed
 * decides everything.
 *
 * @param given overrides the conditions that the seed chooses.
 */
export async function explore(seed: number, given?: Partial<Conditions>, recorder?: Recorder): Promise<Result> {
  const random = randomFrom(seed);
  const clock = new SeededClock(random);
  const memory = new MemoryStore(clock);
  const { table } = memory;
  const referee = new Referee(() => clock.now(), table);
  const conditions = { ...conditionsOf(random), ...given };
  const instances = Array.from({ length: conditions.instances }, () => {
    const instance = new Instance(memory, clock, referee, random() < conditions.strict, conditions.hasQueue);
    instance.wire.faults = conditions;
    return instance;
  });
  const names = Array.from({ length: conditions.keys }, (_, i) => `k:${i}`);
  const keys = names.map((name) => `{lock_k}:${name.slice(2)}`);
  const callers = new Callers(instances, names, conditions, clock, referee);
  const measures = new Measures(instances, keys, () => clock.now());
  referee.onGrant = (key) => measures.granted(key);
  for (const { wire } of instances) {
    wire.onForce = (key) => {
      referee.onForce(key);
      referee.excuse(key, callers.excuseMs);
    };
  }
  recorder?.begins({ clock, table, instances, keys });
  const { calls } = conditions;
  const someCall = (likelihood: number): number => (random() < likelihood ? Math.floor(random() * calls) : -1);
  const diesAt = someCall(conditions.dies);
  const shutsDownAt = someCall(conditions.shutsDown);
  const failoverAt = someCall(conditions.failover);
  for (let i = 0; i < calls; i += 1) {
    if (i === diesAt) instances[0].die();
    if (i === shutsDownAt) void instances[1].shutDown();
    if (i === failoverAt) failover();
    if (random() < conditions.blocked) block();
    void callers.call();
    if (random() < 0.5) await pass(random() * conditions.pauseMs);
  }
  for (let i = 0; i < 40; i += 1) await pass(10);
  // From here on, the network works. Everybody is served, even those that wait without a limit.
  for (const { wire } of instances) wire.faults = NO_FAULTS;
  for (let i = 0; i < 4_000 && callers.running > 0; i += 1) await pass(10);
  if (callers.running > 0) referee.report(`${callers.running} calls wait forever`);
  for (let i = 0; i < 15; i += 1) await pass(QUIET_MS / 15);
  // A replica that has taken over may have brought anything back.
  lookForRest(instances, referee, failoverAt === -1 ? table : undefined);
  const closing = Promise.all(instances.filter(({ isDead }) => !isDead).map((instance) => instance.shutDown()));
  await clock.advance(2_000);
  await closing;
  const requests = instances.reduce((sum, { wire }) => sum + wire.requests, 0);
  return { problems: [...referee.violations], grants: referee.grants, requests, ...measures.result };

  async function pass(ms: number): Promise<void> {
    await clock.advance(ms);
    for (const { engine, clock: own, isDead } of instances) referee.look(engine, !isDead && !own.isBlocked);
    measures.look();
  }

  /** The event loop of an instance stands still. */
  function block(): void {
    const { clock: own, isDead } = instances[Math.floor(random() * instances.length)];
    if (!isDead && !own.isBlocked) own.block(random() * 400);
  }

  /** The server is replaced by a replica without the last changes. Clients reconnect to it. */
  function failover(): void {
    const copy = [...table.rows].map(([key, row]) => [key, structuredClone(row)] as const);
    recorder?.replicates();
    clock.schedule(random() * 50, () => {
      recorder?.failsOver();
      referee.hasFailedOver = true;
      table.rows.clear();
      for (const [key, row] of copy) table.rows.set(key, row);
      for (const key of keys) referee.excuse(key, callers.excuseMs + 20);
      for (const { wire } of instances) wire.disconnect();
    });
  }
}
