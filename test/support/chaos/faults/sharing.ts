import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../../random.js';
import { eventually } from '../../redis-locks.js';
import type { AblationName } from '../ablations.js';
import { ClusterTopology } from '../topology/index.js';
import { HOLDERS, KEY, QUEUE } from '../workload/key.js';
import { WORKLOADS, type WorkloadName } from '../workload/kinds.js';
import { among, type Fault, freeFor, leases, named, NO_END_MS } from './fault.js';
import { killed } from './processes.js';
import { outOfMemory, serverFaults } from './servers.js';

const READER = { reader: true } as const;
const READ_MS = 700;
const READING_MS = 4_000;
const TICKET_MS = 600;

/** Returns a fault in which all callers request the lock at the same time. */
function rush(workload: WorkloadName, without: AblationName): Fault {
  return {
    name: `rush, ${WORKLOADS[workload].label}`,
    what: 'no caller holds or wants the lock, and then all request it at once',
    control: { without, breaks: 'overlap' },
    terms: leases(1_000),
    promises: { waitMs: 2_500, keepsUpdates: true },
    workload,
    async inject({ fleet }) {
      await fleet.rest();
      fleet.go();
    },
  };
}

const [keyDeleted] = named(serverFaults, 'key deleted by hand');

/** Faults of a lock that readers share and writers hold exclusively. */
export const readerFaults: readonly Fault[] = [
  rush('readers', 'readers keep writers out'),
  {
    name: 'reader stopped',
    what: 'SIGSTOP of a reader past its lease, after its last check; SIGCONT while the second writer holds the lock',
    control: { without: 'owner check of releases', breaks: 'overlap' },
    terms: leases(600),
    promises: { waitMs: 5_000, losesHolds: true },
    workload: 'readers',
    held: { ms: 500, looked: true, ...READER },
    async inject({ fleet }, reader) {
      const [first, second] = fleet.some(2, reader);
      reader.stop();
      await fleet.longHold(first, 50);
      await fleet.longHold(second, 800);
      await sleep(100);
      reader.goOn();
    },
  },
  {
    name: 'readers killed',
    what: 'kill -9 of two readers, while all others wait for them',
    control: { without: 'leases of sharers', breaks: 'wait' },
    terms: leases(1_000),
    promises: { waitMs: 5_000 },
    workload: 'readers',
    held: { ms: NO_END_MS, by: 2, waitedFor: true, ...READER },
    inject: (_, ...readers) => killed(...readers),
  },
  {
    name: 'readers without end',
    what: 'a writer waits, and in other processes the next reader always comes before the last one is done',
    control: { without: 'one queue for all', breaks: 'wait' },
    terms: leases(1_000),
    promises: { waitMs: 2_500, keepsUpdates: true },
    workload: 'readers',
    async inject({ fleet }) {
      await fleet.rest();
      // Behind a writer of its own process, a reader waits in any case.
      const writer = fleet.other();
      fleet.go(fleet.others(writer), true);
      const until = machineMs() + READING_MS;
      await fleet.longHold(fleet.other(writer), READ_MS, READER);
      fleet.go([writer]);
      while (machineMs() < until) {
        await sleep(READ_MS / 2);
        const busy = fleet.members.filter((member) => member.busy);
        await fleet.longHold(fleet.other(writer, ...busy), READ_MS, READER);
      }
      fleet.go();
    },
  },
  {
    name: 'fresh readers killed',
    what: 'a writer hands the lock to all readers; two stopped processes are killed before they receive the message',
    control: { without: 'short lease of handoffs', breaks: 'wait' },
    terms: leases(12_000, { waitMs: 14_000 }),
    promises: { waitMs: 7_000 },
    workload: 'readers',
    async inject(scene) {
      const { fleet, victim } = scene;
      const [holder, ...victims] = fleet.some(3);
      await fleet.longHoldAlone([holder], NO_END_MS);
      fleet.go(victims, true);
      await scene.queued(victims.length);
      for (const each of victims) each.stop();
      holder.end();
      const shares = async (): Promise<boolean> => {
        const entries = await victim.admin.zrange(HOLDERS, '0', '-1');
        return victims.every(({ instance }) => entries.some((entry) => entry.startsWith(`v2-${instance}:`)));
      };
      await eventually('they share the lock', shares);
      fleet.go();
      await killed(...victims);
    },
  },
  among('readers', keyDeleted, {
    what: 'DEL of all keys of a lock that two readers share, and of its queue; then a writer holds the lock for long',
    // A waiter that has lost its place in the queue notices it at its next regular retry.
    promises: { waitMs: 8_000, losesHolds: true, overlapMs: 700 },
    held: { ms: 3_500, by: 2, ...READER },
    async inject(scene, ...readers) {
      const { fleet } = scene;
      await scene.lose('lockDeleted', () => scene.atServers((admin) => admin.del(KEY, HOLDERS, QUEUE)));
      await fleet.longHold(fleet.other(...readers), 1_800);
    },
  }),
  among('readers', outOfMemory, { held: { ms: 3_500, by: 2, waitedFor: true, ...READER } }),
  {
    name: 'cluster slot moved, readers and writers',
    what: "the lock's keys, and then its slot, move to another node while two readers hold the lock and others wait",
    control: { without: 'following slots', breaks: 'hold lost' },
    terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 20_000 }),
    promises: { waitMs: 10_000, freeMs: freeFor(2_000), refuses: true, keepsUpdates: true },
    workload: 'readers',
    on: 'cluster',
    // The leases outlast the fault only by renewals on the next node.
    held: { ms: 5_000, by: 2, waitedFor: true, ...READER },
    inject: (scene) => scene.on(ClusterTopology).moveSlot(),
  },
];

/** Faults of a lock with permits. */
export const permitFaults: readonly Fault[] = [
  rush('permits', 'number of permits'),
  {
    name: 'permit holder stopped',
    what: 'SIGSTOP past its lease, after its last check of its permit; SIGCONT while others hold all permits',
    control: { without: 'owner check of releases', breaks: 'overlap' },
    terms: leases(600),
    promises: { waitMs: 5_000, losesHolds: true },
    workload: 'permits',
    held: { ms: 500, looked: true },
    async inject({ fleet }, holder) {
      holder.stop();
      await sleep(600);
      await fleet.longHolds(fleet.others(holder), 800);
      await sleep(100);
      holder.goOn();
    },
  },
];

/** A fault of locks that are detached within their holds. The next process resumes them, or releases them. */
export const ticketLate: Fault = {
  name: 'ticket used late',
  what: 'SIGSTOP of a process that gets a ticket, past its lease; SIGCONT while another process holds the lock',
  control: { without: 'owner check of tickets', breaks: 'overlap' },
  terms: leases(TICKET_MS),
  promises: { waitMs: 5_000, losesHolds: true },
  workload: 'tickets',
  async inject({ fleet }) {
    const late = fleet.other();
    await fleet.rest();
    late.stop();
    fleet.go(fleet.others(late));
    await eventually('it has a ticket', () => late.holds);
    await sleep(TICKET_MS);
    await fleet.longHold(fleet.other(late), 800);
    await sleep(100);
    late.goOn();
    fleet.go();
  },
};
